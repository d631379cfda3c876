/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The answer of POST /registry/v1/sync (docs/registry.md, Collector), read and bounded. Pure. */
#include <jansson.h>

#include "base.h"

#define SYNC_ANSWER_MAX (16 * 1024 * 1024) /* runs over 4096 hosts, some of them at a time */
#define SYNC_WHY_MAX 160
#define SYNC_LEASE_MIN (1 * USEC_PER_SEC)
#define SYNC_LEASE_MAX (600 * USEC_PER_SEC)
#define SYNC_STORE_MAX 41 /* with its NUL */

struct sync_answer {
        usec_t lease;
        char revision[64]; /* to be said with the next request; printable ASCII */
        char store[SYNC_STORE_MAX]; /* whose term it is; printable ASCII; empty: SQLite */
        uint64_t term; /* of the collector that answers: who led later has a higher one; 0: SQLite */
        bool whole, tell;
        json_t *records; /* an object of objects and nulls, its keys checked; never NULL */
        bool conflict;   /* the worker id is another machine's */
        char holder[64], holder_id[128], holder_address[64]; /* address: its first; empty: not said */
        usec_t since; /* real clock; 0: not said */
};
#define SYNC_ANSWER_NULL ((struct sync_answer){ 0 })
void sync_answer_clear(struct sync_answer *a);
#define _cleanup_sync_answer_ _cleanup_(sync_answer_clear)

/* -EBADMSG with why; members that are not known are passed over. -E2BIG, -ENOMEM. */
int sync_answer_parse(const char *text, size_t len, struct sync_answer *ret, char why[static SYNC_WHY_MAX]);
