/* SPDX-License-Identifier: Apache-2.0 */
#include "run_totals_part.h"

#include <assert.h>

#define ROUND 0u /* of all that is given: series end when their run is forgotten */

struct run_totals_state {
        struct bus *bus;
        unsigned source; /* the first of one for each run */
        struct kept_total {
                struct run_total total;
                unsigned given; /* the tick's round behind which it was given last */
                usec_t since_real;
        } runs[RUN_TOTALS_MAX];
};

static bool may_live(const struct bus *b, const char *run) {
        const struct host_run *r = host_runs_find(b->runs, run);

        return !b->runs->known || (r && host_run_lives(r));
}

static unsigned source_of(const struct run_totals_state *s, const struct kept_total *k) {
        assert(k >= s->runs && k < s->runs + RUN_TOTALS_MAX);
        return s->source + (unsigned) (k - s->runs);
}

static void forget_run(struct run_totals_state *s, struct kept_total *k) {
        bus_end_samples(s->bus, source_of(s, k), ROUND + 1);
        k->total = (struct run_total){ .run = "" };
}

/* Its place, a free one, or that of a run that is over. NULL: there is none. */
static struct kept_total *place_of(struct run_totals_state *s, const char *run) {
        const struct host_run *r = host_runs_find(s->bus->runs, run);
        struct kept_total *place = NULL;

        for (struct kept_total *k = s->runs; k < s->runs + RUN_TOTALS_MAX; k++) {
                if (streq(k->total.run, run))
                        return k;
                if (!place && (k->total.run[0] == '\0' || !may_live(s->bus, k->total.run)))
                        place = k;
        }
        if (!place)
                return NULL;
        forget_run(s, place);
        (void) snprintf(place->total.run, sizeof(place->total.run), "%s", run);
        place->since_real = MAX(s->bus->started_real, r ? r->started_real : 0);
        return place;
}

static struct bus_sink sink_of(struct run_totals_state *s, struct kept_total *k) {
        struct bus_sink sink = bus_sink(s->bus, source_of(s, k), ROUND);

        k->given = s->bus->round;
        sink.start_real = k->since_real;
        return sink;
}

void run_totals_watched_sched(const struct bus *b, const char *run, const struct sched_figures *f, usec_t span) {
        struct run_totals_state *s = bus_part(b, &run_totals_part);
        struct kept_total *k = place_of(s, run);
        struct bus_sink sink;

        if (!k)
                return;
        run_total_add_sched(&k->total, f, span);
        sink = sink_of(s, k);
        run_total_put_watched(&k->total, WATCH_SCHED, &sink.sink);
}

void run_totals_watched_io(const struct bus *b, const char *run, const struct io_figures *f, usec_t span) {
        struct run_totals_state *s = bus_part(b, &run_totals_part);
        struct kept_total *k = place_of(s, run);
        struct bus_sink sink;

        if (!k)
                return;
        run_total_add_io(&k->total, f, span);
        sink = sink_of(s, k);
        run_total_put_watched(&k->total, WATCH_IO, &sink.sink);
}

void run_totals_died(const struct bus *b, const char *run, const struct death *d) {
        struct run_totals_state *s = bus_part(b, &run_totals_part);
        struct kept_total *k = place_of(s, run);
        struct bus_sink sink;

        if (!k)
                return;
        run_total_add_death(&k->total, d);
        sink = sink_of(s, k);
        run_total_put_deaths(&k->total, &sink.sink);
}

/* --- The part ------------------------------------------------------------------------------------------ */

static int start_run_totals(void *self) {
        struct run_totals_state *s = self;

        s->source = bus_sources(s->bus, RUN_TOTALS_MAX);
        return 0;
}

/* Forgets runs that are over, as soon as everything of theirs went to the uplink. */
static void tick_run_totals(void *self) {
        struct run_totals_state *s = self;

        for (struct kept_total *k = s->runs; k < s->runs + RUN_TOTALS_MAX; k++)
                if (k->total.run[0] && !may_live(s->bus, k->total.run) && s->bus->round - k->given > 1)
                        forget_run(s, k);
}

const struct part run_totals_part = {
        .name = "run-totals",
        .size = sizeof(struct run_totals_state),
        .start = start_run_totals,
        .tick = tick_run_totals,
};
