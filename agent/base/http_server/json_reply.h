/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* JSON as the reply of a call, and the one form of an error: {error, remedy}. */
#include <jansson.h>

#include "http_server.h"

/* Sets status, type and body. Takes v over; NULL is out of memory: 503 without a body, to be tried again. */
void api_reply(struct http_reply *reply, unsigned status, json_t *v);
/* remedy: NULL: none is known. */
void api_reply_error(struct http_reply *reply, unsigned status, const char *error, const char *remedy);
