/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * When to try again. Pure: chance and time are arguments.
 */
#include "base.h"

#define BACKOFF_BASE (500 * USEC_PER_MSEC)
#define BACKOFF_MAX (30 * USEC_PER_SEC)
#define BACKOFF_PARKED (60 * USEC_PER_SEC)        /* DESIGN, Wire: a parked endpoint gets one try a minute */
#define BACKOFF_RETRY_AFTER_MAX (3600 * USEC_PER_SEC) /* a server cannot silence a host for longer */

/*
 * Full jitter: anything from 0 to min(BACKOFF_MAX, BACKOFF_BASE * 2^failures); failures counts from 0.
 * random: 64 random bits.
 */
usec_t backoff_next(unsigned failures, uint64_t random);
#define BACKOFF_RETRY_AFTER_TEXT 64 /* a date is half of that */
/* Copies what a header line of len bytes says, if it is Retry-After and fits; else ret stays. */
void backoff_take_retry_after(const char *line, size_t len, char ret[static BACKOFF_RETRY_AFTER_TEXT]);
/*
 * The wait a Retry-After header asks for: seconds, or an HTTP-date seen at now_real (RFC 9110, 10.2.3),
 * cut at BACKOFF_RETRY_AFTER_MAX. 0 for a date that has passed. -EBADMSG: neither form.
 */
int backoff_parse_retry_after(const char *text, usec_t now_real, usec_t *ret);
