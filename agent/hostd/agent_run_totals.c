/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_run_totals.h"

#include "agent_watch.h"

struct agent_run_totals {
        struct {
                struct run_total total;
                unsigned told; /* tick behind which it was told last */
                usec_t since_real;
        } runs[RUN_TOTALS_MAX];
};

struct totals_sink {
        struct sink sink;
        struct bus *bus;
        size_t run;
};

static void put(struct sink *s, const struct sample *m) {
        const struct totals_sink *to = (const struct totals_sink *) s; /* the sink is the first member */

        bus_take_sample(to->bus, SOURCE_RUN_TOTALS + (unsigned) to->run, 0, m, agent_of(to->bus)->run_totals->runs[to->run].since_real);
}

static void ignore(struct sink *s, const struct finding *f) {
        (void) s;
        (void) f;
}

static bool lives(const struct bus *b, const char *run) {
        const struct host_run *j = host_runs_find(b->runs, run);

        return !b->runs->known || (j && host_run_lives(j));
}

static void forget(struct bus *b, size_t i) {
        sample_store_end_run(&b->samples, SOURCE_RUN_TOTALS + (unsigned) i, 1); /* theirs is 0 */
        agent_of(b)->run_totals->runs[i].total = (struct run_total){ .run = "" };
}

static void begin(struct bus *b, size_t i, const char *run) {
        const struct host_run *j = host_runs_find(b->runs, run);

        (void) snprintf(agent_of(b)->run_totals->runs[i].total.run, sizeof(agent_of(b)->run_totals->runs[i].total.run), "%s", run);
        agent_of(b)->run_totals->runs[i].since_real = MAX(b->started_real, j ? j->started_real : 0);
}

/* Its place, a free one, or that of a run that is over. RUN_TOTALS_MAX: there is none. */
static size_t place_of(struct bus *b, const char *run) {
        size_t place = RUN_TOTALS_MAX;

        if (!agent_of(b)->run_totals)
                agent_of(b)->run_totals = calloc(1, sizeof(*agent_of(b)->run_totals));
        if (!agent_of(b)->run_totals)
                return RUN_TOTALS_MAX; /* without memory these metrics are missing, nothing else */
        for (size_t i = 0; i < RUN_TOTALS_MAX; i++) {
                const char *held = agent_of(b)->run_totals->runs[i].total.run;

                if (streq(held, run))
                        return i;
                if (place == RUN_TOTALS_MAX && (held[0] == '\0' || !lives(b, held)))
                        place = i;
        }
        if (place < RUN_TOTALS_MAX) {
                forget(b, place);
                begin(b, place, run);
        }
        return place;
}

static struct totals_sink sink_of(struct bus *b, size_t i) {
        agent_of(b)->run_totals->runs[i].told = b->round;
        return (struct totals_sink){ .sink = { .finding = ignore, .sample = put }, .bus = b, .run = i };
}

void agent_run_totals_watched(struct bus *b, enum watch_kind kind, usec_t span) {
        const struct sched_figures *sched = agent_watch_sched(b);
        const struct io_figures *io = agent_watch_io(b);
        size_t i = place_of(b, agent_of(b)->watch_now[kind].run);
        struct totals_sink to;

        if (i == RUN_TOTALS_MAX || !(kind == WATCH_SCHED ? (const void *) sched : (const void *) io))
                return;
        if (kind == WATCH_SCHED)
                run_total_add_sched(&agent_of(b)->run_totals->runs[i].total, sched, span);
        else
                run_total_add_io(&agent_of(b)->run_totals->runs[i].total, io, span);
        to = sink_of(b, i);
        run_total_put_watched(&agent_of(b)->run_totals->runs[i].total, kind, &to.sink);
}

void agent_run_totals_died(struct bus *b, const char *run, const struct death *d) {
        size_t i = place_of(b, run);
        struct totals_sink to;

        if (i == RUN_TOTALS_MAX)
                return;
        run_total_add_death(&agent_of(b)->run_totals->runs[i].total, d);
        to = sink_of(b, i);
        run_total_put_deaths(&agent_of(b)->run_totals->runs[i].total, &to.sink);
}

void agent_run_totals_tick(struct bus *b) {
        for (size_t i = 0; agent_of(b)->run_totals && i < RUN_TOTALS_MAX; i++) {
                const char *run = agent_of(b)->run_totals->runs[i].total.run;

                if (run[0] && !lives(b, run) && b->round - agent_of(b)->run_totals->runs[i].told > 1)
                        forget(b, i);
        }
}

void agent_run_totals_stop(struct bus *b) {
        free(agent_of(b)->run_totals);
        agent_of(b)->run_totals = NULL;
}
