/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What to do about a damaged database: it stays damaged, so it is moved aside, a new one is made, and the
 * agents bring what they still have. Said as an event (systemd/tpu-collector.catalog).
 */
#include <systemd/sd-event.h>

#include "clock.h"
#include "counters.h"
#include "store.h"

struct damage {
        struct store *store;
        struct counters *counters;
        sd_event *event;
        void (*replaced)(void *userdata); /* a new database was made. May be NULL */
        void *userdata;
};

/* After an answer of the store, outside of a transaction; does something about -EUCLEAN only. Ends the loop
 * when no new database can be made. */
void damage_handle(const struct damage *d, int r);
/* The file has been moved to aside. */
void damage_report(struct counters *c, const char *aside);

/*
 * Keeps the database as old and as large as it may be (RetainDays=, RetainBytes=): a small piece of work
 * every RETAIN_TICK, so that all hosts had their turn within RETAIN_ROUND.
 */

#define RETAIN_ROUND  (300 * USEC_PER_SEC)
#define RETAIN_TICK   (100 * USEC_PER_MSEC) /* at least between two pieces */
#define RETAIN_PIECES 16                    /* in one turn of the loop, when there are many hosts */

struct retain;
/* d and clock are borrowed. */
int retain_new(const struct damage *d, const struct clock *clock, const struct store_retention *what,
               struct retain **ret);
struct retain *retain_free(struct retain *r);
DEFINE_CLEANUP(struct retain *, retain_free)
