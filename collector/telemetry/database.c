/* SPDX-License-Identifier: Apache-2.0 */
#include "database.h"

#include "journal.h"
#include "log.h"
#include "loop_timer.h"

/* --- Damage ---------------------------------------------------------------------------------------- */

void damage_report(struct counters *c, const char *aside) {
        c->started_over++;
        /* without a journal it is a line on standard error */
        (void) journal_event(EVENT_OF(DATABASE_DAMAGED, .database = aside));
}

void damage_handle(const struct damage *d, int r) {
        char aside[300], why[256];

        if (r != -EUCLEAN)
                return;
        if (store_start_over(d->store, aside, why) == 0) {
                damage_report(d->counters, aside);
                if (d->replaced)
                        d->replaced(d->userdata);
                return;
        }
        log_error("the database is damaged, and a new one cannot be made: %s", why);
        (void) sd_event_exit(d->event, -EUCLEAN);
}

/* --- Retention ------------------------------------------------------------------------------------- */

#define TIME_WORTH_A_LINE (86400 * USEC_PER_SEC)
#define TIMER_ACCURACY (20 * USEC_PER_MSEC)

struct retain {
        const struct damage *damage;
        const struct clock *clock;
        struct store_retention what;
        struct clock_steady time; /* a clock that is set wrong is no reason to remove all that there is */
        sd_event_source *timer;
        unsigned hosts;
        bool failing;
};

/* When the next piece is due, and how many there are then. */
static usec_t pause_between(const struct retain *r) {
        usec_t each = RETAIN_ROUND / MAX(r->hosts, 1U);

        if (store_is_behind(r->damage->store))
                return RETAIN_TICK;
        return MIN(MAX(each, RETAIN_TICK), 10 * USEC_PER_SEC);
}

static unsigned pieces_due(const struct retain *r) {
        usec_t each = RETAIN_ROUND / MAX(r->hosts, 1U);

        return each >= RETAIN_TICK
                       ? 1
                       : (unsigned) MIN(RETAIN_TICK / MAX(each, (usec_t) 1) + 1, (usec_t) RETAIN_PIECES);
}

/*
 * The steady clock goes on where it was kept: what the real one gained while we were away may be time that
 * passed, or a clock that was set forward, and nobody can say which. It is made good as slowly.
 */
static void restore_time(struct retain *r) {
        usec_t kept = 0, real = clock_real(r->clock);

        if (store_tended(r->damage->store, &kept) < 0 || kept == 0 || kept > real)
                return;
        r->time = (struct clock_steady){ .boot = clock_boot(r->clock), .real = kept };
        if (real - kept > TIME_WORTH_A_LINE)
                log_notice("nothing was removed for its age since %u days: that time counts little by "
                           "little, for the clock may have been set forward; RetainBytes= holds as always",
                           (unsigned) ((real - kept) / (86400 * USEC_PER_SEC)));
}

/*
 * The steady clock does not follow one that is set forward; where it began with one that was ahead, what is
 * set right counts at once: all that comes would be old for it, for as long as it takes to be overtaken.
 */
static usec_t retention_now(struct retain *r) {
        usec_t steady = clock_steady(&r->time, r->clock);

        return MIN(steady, clock_real(r->clock));
}

static int on_timer(sd_event_source *source, uint64_t at, void *userdata) {
        struct retain *r = userdata;
        int e = 0;

        (void) at;
        for (unsigned i = pieces_due(r); e == 0 && i > 0; i--)
                e = store_tend(r->damage->store, &r->what, retention_now(r), &r->hosts);
        if (e < 0 && !r->failing)
                log_warning("old data cannot be removed, tried again all the time: %s",
                            store_error(r->damage->store));
        r->failing = e < 0;
        damage_handle(r->damage, e);
        e = loop_timer_in(source, pause_between(r));
        if (e < 0)
                (void) log_warning_errno(e, "retention: timer: %m");
        return 0;
}

int retain_new(const struct damage *d, const struct clock *clock, const struct store_retention *what,
               struct retain **ret) {
        _cleanup_(retain_freep) struct retain *r = calloc(1, sizeof(*r));
        int q;

        if (!r)
                return -ENOMEM;
        *r = (struct retain) { .damage = d, .clock = clock, .what = *what };
        q = loop_timer_new(d->event, CLOCK_MONOTONIC, TIMER_ACCURACY, "retention", on_timer, r, &r->timer);
        restore_time(r);
        if (q >= 0)
                q = loop_timer_in(r->timer, USEC_PER_SEC);
        if (q >= 0)
                q = sd_event_source_set_priority(r->timer, SD_EVENT_PRIORITY_IDLE);
        if (q < 0)
                return q;
        *ret = TAKE_PTR(r);
        return 0;
}

struct retain *retain_free(struct retain *r) {
        if (!r)
                return NULL;
        (void) sd_event_source_unref(r->timer);
        free(r);
        return NULL;
}
