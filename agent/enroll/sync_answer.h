/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The answer of POST /registry/v1/sync (docs/registry.md, How a host asks), read and bounded. Pure. */
#include <jansson.h>

#include "registry.h"

#define SYNC_ANSWER_MAX (16 * 1024 * 1024) /* runs over 4096 hosts, some of them at a time */
#define SYNC_WHY_MAX 160
#define SYNC_LEASE_MIN (1 * USEC_PER_SEC)
#define SYNC_LEASE_MAX (600 * USEC_PER_SEC)
#define SYNC_STORE_MAX 41 /* with its NUL */
#define SYNC_ERROR_MAX (64 * 1024)

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

/* What a server says beside a status that is no 200, {"error": …}: a new reference, NULL where it is
 * none. */
json_t *sync_error_object(const void *body, size_t len);
/* The same as one text. o may be NULL. */
void sync_error_text(long status, const json_t *o, char *buf, size_t size);
/* Whether it was understood and is not wanted, so that the same again changes nothing. */
bool sync_is_refusal(long status);

/* --- What is known from the answers, and who is called when that changes ------------------------------- */

#define REGISTRY_KEY_MAX 160

struct registry_known {
        sd_event *event;
        struct registry_events events;
        void *userdata;
        struct registry_status status;
        json_t *records; /* key → value */
        bool complete;   /* the first whole answer has been handed over */
};

/* t is zeroed memory. -ENOMEM: registry_known_clear() is still to be called. */
int registry_known_init(struct registry_known *t, sd_event *e, const struct registry_events *events,
                       void *userdata);
void registry_known_clear(struct registry_known *t);

/* One record as it is now (NULL or null: gone); the handler is called when it has changed. */
void registry_known_record(struct registry_known *t, const char *key, const json_t *value);
/* These are all: what was known before and is not among them is gone. Then `complete`, the first time. */
void registry_known_whole(struct registry_known *t, const json_t *records);
/* Without a registry: the one record of this slice is made of what this host says of itself. */
void registry_known_alone(struct registry_known *t, const char *slice, unsigned worker,
                          const json_t *member);
/* The status from now on; the handler is called when it has changed. since changes with the state alone. */
void registry_known_status(struct registry_known *t, enum registry_state s, bool may_claim, const char *why);
/* To the handler of notices, if there is one. */
void registry_known_notice(struct registry_known *t, const char *fmt, ...) _printf_(2, 3);
usec_t registry_known_now(const struct registry_known *t); /* boot clock */

/* "Date: Tue, 24 Nov 2026 15:00:00 GMT": when the answer was made, to the second. False: another header. */
bool sync_date(const char *line, size_t len, usec_t *ret);
