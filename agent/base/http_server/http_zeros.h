/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A reply of zeros that are in no memory: http_reply.zeros. Inside the room only. */
#include <microhttpd.h>

#include "http_server.h"

/* The response; reply's body is then its own. NULL: out of memory, and reply is as it was. */
struct MHD_Response *http_zeros(struct http_reply *reply);
