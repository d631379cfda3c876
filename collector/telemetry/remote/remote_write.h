/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Hands on what the store has: points by Prometheus remote write, or points, events and lines of runs by
 * OTLP/HTTP, each a stream of its own. What waits is a set of rows in the store, and a position each of
 * events and lines (store_handover.h): nothing is lost while the receiver is away, as long as the store
 * keeps it.
 *
 * Refusals that are about what is sent (400, 413, 422): the request is halved until one point or record is
 * refused alone. That one is given up, and counted by reason; so is what an answer of OTLP calls rejected.
 * Of a push whose points are refused again and again the rest is given up, for others wait behind it.
 * Refusals that a person must mend (401, 403, 404 and the like, 500 of OTLP): nothing is given up, one try a
 * minute. 429, 5xx and silence: tried again with backoff.
 */
#include <systemd/sd-event.h>

#include "clock.h"
#include "store_handover.h"

enum remote_reason {
        REMOTE_OUT_OF_ORDER,
        REMOTE_DUPLICATE,
        REMOTE_TOO_OLD,
        REMOTE_TOO_LARGE,
        REMOTE_UNNAMED, /* no valid name, or too many labels: not sent */
        REMOTE_OTHER,
        _REMOTE_REASON_MAX
};
const char *remote_reason_name(enum remote_reason reason);

enum remote_what { REMOTE_POINTS, REMOTE_EVENTS, REMOTE_LINES, _REMOTE_WHAT_MAX };
struct remote_counters {
        uint64_t written, markers; /* samples or records that were taken; of them, markers of ended series */
        uint64_t refused[_REMOTE_REASON_MAX]; /* samples or records that were given up */
        uint64_t failures; /* requests that are tried again */
        uint64_t expired;  /* records that retention removed before their turn */
};

struct remote_target {
        char url[256], ca[256], certificate[256], key[256]; /* as of struct exchange_options */
        char authorization[256]; /* a file with the value of the header Authorization; empty: none */
        bool otlp; /* else Prometheus remote write, of points alone */
};

struct remote_options {
        sd_event *event;
        struct store *store;
        const struct clock *clock;
        const struct remote_target *to; /* borrowed */
        void (*failed)(int error, void *userdata); /* the store's, outside of a transaction */
        void *userdata;
};

struct remote_write;
/* -EINVAL with why: no URL; -ENOMEM, -errno. */
int remote_write_new(const struct remote_options *o, struct remote_write **ret, char why[static 256]);
struct remote_write *remote_write_free(struct remote_write *w);
DEFINE_CLEANUP(struct remote_write *, remote_write_free)
/* The database was replaced: what is known of its series and records means nothing now. */
void remote_write_forget(struct remote_write *w);
/* All are 0 of what is not handed on. */
const struct remote_counters *remote_write_counters(const struct remote_write *w, enum remote_what what);
/* How many events or lines wait; 0 of points, whose rows the store counts. The store's -errno. */
int remote_write_waiting(const struct remote_write *w, enum remote_what what, uint64_t *ret);
/* How long something may have waited; 0: nothing waits. */
usec_t remote_write_behind(const struct remote_write *w);
