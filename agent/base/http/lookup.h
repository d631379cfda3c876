/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The addresses of one host name, looked up in a short-lived process: libcurl would do it in a thread that
 * cannot be ended, so that a name server that does not answer would hold up the loop and its end. What was
 * found last stays good while a newer answer does not come.
 */
#include <systemd/sd-event.h>

#include "base.h"

#define LOOKUP_TIMEOUT (10 * USEC_PER_SEC) /* resolv.conf(5): two tries of 5 s at one server */
#define LOOKUP_ADDRESSES 8
#define LOOKUP_TEXT_MAX 700 /* "host:port:address,…": 255 + 6 + 8 * 48 */

struct lookup;
/* A question ended: error is NULL, or why there is no newer answer. */
typedef void (*lookup_done)(const char *error, void *userdata);
/* Of the host and port of a URL; *ret stays as it is when the host is an address. -EINVAL: it has none. */
int lookup_new(sd_event *e, const char *url, lookup_done done, void *userdata, struct lookup **ret);
/* Kills a question at work. */
struct lookup *lookup_free(struct lookup *r);
DEFINE_CLEANUP(struct lookup *, lookup_free)

/* Asks, unless a question is at work. -errno when no process could be made. */
int lookup_ask(struct lookup *r);
/* For CURLOPT_RESOLVE, NULL when nothing is known yet; taken: boot clock, when it was answered. */
const char *lookup_answer(const struct lookup *r, usec_t *ret_taken);
