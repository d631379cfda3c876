/* SPDX-License-Identifier: Apache-2.0 */
#include "run_totals_part.h"

#include <assert.h>

#include "watch_json.h"

#define NSEC 1e9
_Static_assert(SCHED_BUCKETS == IO_BUCKETS, "histograms of both have the same bounds");

/* --- Adding up ----------------------------------------------------------------------------------------- */

static void add_words(void *sum, const void *more, size_t bytes) {
        __u64 *to = sum;
        const __u64 *from = more;

        for (size_t i = 0; i < bytes / sizeof(*to); i++)
                to[i] += from[i];
}

void run_total_add_sched(struct run_total *t, const struct sched_figures *f, usec_t span) {
        struct sched_shard seen;

        sched_sum(f, &seen);
        add_words(&t->sched, &seen, sizeof(seen));
        t->lost[WATCH_SCHED] += f->lost;
        t->watched[WATCH_SCHED] += span;
}

void run_total_add_io(struct run_total *t, const struct io_figures *f, usec_t span) {
        add_words(t->requests, f->requests, sizeof(t->requests));
        add_words(t->calls, f->calls, sizeof(t->calls));
        t->held_back += f->stalls;
        t->lost[WATCH_IO] += f->lost;
        t->watched[WATCH_IO] += span;
}

static const char *sender_of(const struct death *d) {
        if (!d->sender_known)
                return "unknown";
        if (d->by_kernel)
                return d->out_of_memory ? "out_of_memory" : "kernel";
        return d->sender == d->victim ? "itself" : "process";
}

void run_total_add_death(struct run_total *t, const struct death *d) {
        struct run_deaths *to = NULL;

        for (size_t i = 0; i < t->n_deaths && !to; i++)
                if (t->deaths[i].signal == d->signal && streq(t->deaths[i].sender, sender_of(d)))
                        to = &t->deaths[i];
        if (!to && t->n_deaths < RUN_DEATHS_MAX) {
                to = &t->deaths[t->n_deaths++];
                *to = t->n_deaths < RUN_DEATHS_MAX
                              ? (struct run_deaths){ .signal = d->signal, .sender = sender_of(d) }
                              : (struct run_deaths){ .sender = "other" };
        }
        (to ? to : &t->deaths[RUN_DEATHS_MAX - 1])->n++;
}

/* --- Metrics ------------------------------------------------------------------------------------------- */

static void put_sched(const struct run_total *t, struct sink *s) {
        const struct sched_shard *f = &t->sched;
        __u64 to_node = MIN(f->node_migrations, f->migrations);

        put_buckets(s, METRIC_RUN_SCHED_DELAY, f->buckets, IO_BUCKETS, f->delay_ns, t->run, NULL);
        put_buckets(s, METRIC_RUN_OFF_CPU, f->preempted_buckets, IO_BUCKETS, f->preempted_ns, t->run,
                    "preempted");
        put_buckets(s, METRIC_RUN_OFF_CPU, f->blocked_buckets, IO_BUCKETS, f->blocked_ns, t->run, "blocked");
        put_double(s, METRIC_RUN_SOFTIRQ, (double) f->softirq_ns / NSEC, t->run, NULL, NULL);
        put_uint(s, METRIC_RUN_MIGRATIONS, f->migrations - to_node, t->run, "cpu", NULL);
        put_uint(s, METRIC_RUN_MIGRATIONS, to_node, t->run, "node", NULL);
}

static void put_io(const struct run_total *t, struct sink *s) {
        for (size_t i = 0; i < IO_OPERATIONS; i++)
                put_buckets(s, METRIC_RUN_REQUESTS, t->requests[i].buckets, IO_BUCKETS, t->requests[i].ns,
                            t->run, watch_operation_name(i));
        for (size_t i = 0; i < IO_CALLS; i++)
                put_buckets(s, METRIC_RUN_CALLS, t->calls[i].buckets, IO_BUCKETS, t->calls[i].ns, t->run,
                            watch_call_name(i));
        put_uint(s, METRIC_RUN_HELD_BACK, t->held_back, t->run, NULL, NULL);
}

void run_total_put_watched(const struct run_total *t, enum watch_kind kind, struct sink *s) {
        static const char *const names[] = { [WATCH_SCHED] = "sched", [WATCH_IO] = "io" };
        _Static_assert(ELEMENTSOF(names) == _WATCH_KIND_MAX, "a name a kind");

        put_double(s, METRIC_RUN_WATCH_TIME, (double) t->watched[kind] / USEC_PER_SEC, t->run, names[kind],
                   NULL);
        put_uint(s, METRIC_RUN_WATCH_LOST, t->lost[kind], t->run, names[kind], NULL);
        if (kind == WATCH_SCHED)
                put_sched(t, s);
        else
                put_io(t, s);
}

void run_total_put_deaths(const struct run_total *t, struct sink *s) {
        for (size_t i = 0; i < t->n_deaths; i++) {
                const struct run_deaths *d = &t->deaths[i];
                char signal[DEATH_SIGNAL_TEXT_MAX];

                put_uint(s, METRIC_RUN_DEATHS, d->n, t->run,
                         d->signal ? death_signal(d->signal, signal) : "other", d->sender);
        }
}

/* --- The runs of this host ----------------------------------------------------------------------------- */

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

void run_totals_watched_sched(const struct bus *b, const char *run, const struct sched_figures *f,
                              usec_t span) {
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
