/* SPDX-License-Identifier: Apache-2.0 */
#include "run_totals.h"

#include "probe.h"
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
                *to = t->n_deaths < RUN_DEATHS_MAX ? (struct run_deaths){ .signal = d->signal, .sender = sender_of(d) }
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

        put_double(s, METRIC_RUN_WATCH_TIME, (double) t->watched[kind] / USEC_PER_SEC, t->run, names[kind], NULL);
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
