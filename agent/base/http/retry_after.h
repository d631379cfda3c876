/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * When a server asks to be tried again. Pure: time is an argument.
 */
#include "backoff.h"

#define BACKOFF_RETRY_AFTER_MAX (3600 * USEC_PER_SEC) /* a server cannot silence a host for longer */

#define BACKOFF_RETRY_AFTER_TEXT 64 /* a date is half of that */
/* Copies what a header line of len bytes says, if it is Retry-After and fits; else ret stays. */
void backoff_take_retry_after(const char *line, size_t len, char ret[static BACKOFF_RETRY_AFTER_TEXT]);
/*
 * The wait a Retry-After header asks for: seconds, or an HTTP-date seen at now_real (RFC 9110, 10.2.3),
 * cut at BACKOFF_RETRY_AFTER_MAX. 0 for a date that has passed. -EBADMSG: neither form.
 */
int backoff_parse_retry_after(const char *text, usec_t now_real, usec_t *ret);
