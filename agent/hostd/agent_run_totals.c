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
        struct agent *agent;
        size_t run;
};

static void put(struct sink *s, const struct sample *m) {
        const struct totals_sink *to = (const struct totals_sink *) s; /* the sink is the first member */

        agent_take_sample(to->agent, SOURCE_RUN_TOTALS + (unsigned) to->run, 0, m, to->agent->run_totals->runs[to->run].since_real);
}

static void ignore(struct sink *s, const struct finding *f) {
        (void) s;
        (void) f;
}

static bool lives(const struct agent *a, const char *run) {
        const struct launchd_run *j = launchd_runs_find(a->runs, run);

        return !launchd_runs_get(a->runs)->known || (j && !streq(j->state, "exited"));
}

static void forget(struct agent *a, size_t i) {
        sample_store_end_run(&a->samples, SOURCE_RUN_TOTALS + (unsigned) i, 1); /* theirs is 0 */
        a->run_totals->runs[i].total = (struct run_total){ .run = "" };
}

static void begin(struct agent *a, size_t i, const char *run) {
        const struct launchd_run *j = launchd_runs_find(a->runs, run);

        (void) snprintf(a->run_totals->runs[i].total.run, sizeof(a->run_totals->runs[i].total.run), "%s", run);
        a->run_totals->runs[i].since_real = MAX(a->started_real, j ? j->started_real : 0);
}

/* Its place, a free one, or that of a run that is over. RUN_TOTALS_MAX: there is none. */
static size_t place_of(struct agent *a, const char *run) {
        size_t place = RUN_TOTALS_MAX;

        if (!a->run_totals)
                a->run_totals = calloc(1, sizeof(*a->run_totals));
        if (!a->run_totals)
                return RUN_TOTALS_MAX; /* without memory these metrics are missing, nothing else */
        for (size_t i = 0; i < RUN_TOTALS_MAX; i++) {
                const char *held = a->run_totals->runs[i].total.run;

                if (streq(held, run))
                        return i;
                if (place == RUN_TOTALS_MAX && (held[0] == '\0' || !lives(a, held)))
                        place = i;
        }
        if (place < RUN_TOTALS_MAX) {
                forget(a, place);
                begin(a, place, run);
        }
        return place;
}

static struct totals_sink sink_of(struct agent *a, size_t i) {
        a->run_totals->runs[i].told = a->ticks;
        return (struct totals_sink){ .sink = { .finding = ignore, .sample = put }, .agent = a, .run = i };
}

void agent_run_totals_watched(struct agent *a, enum watch_kind kind, usec_t span) {
        const struct sched_figures *sched = agent_watch_sched(a);
        const struct io_figures *io = agent_watch_io(a);
        size_t i = place_of(a, a->watch_now[kind].run);
        struct totals_sink to;

        if (i == RUN_TOTALS_MAX || !(kind == WATCH_SCHED ? (const void *) sched : (const void *) io))
                return;
        if (kind == WATCH_SCHED)
                run_total_add_sched(&a->run_totals->runs[i].total, sched, span);
        else
                run_total_add_io(&a->run_totals->runs[i].total, io, span);
        to = sink_of(a, i);
        run_total_put_watched(&a->run_totals->runs[i].total, kind, &to.sink);
}

void agent_run_totals_died(struct agent *a, const char *run, const struct death *d) {
        size_t i = place_of(a, run);
        struct totals_sink to;

        if (i == RUN_TOTALS_MAX)
                return;
        run_total_add_death(&a->run_totals->runs[i].total, d);
        to = sink_of(a, i);
        run_total_put_deaths(&a->run_totals->runs[i].total, &to.sink);
}

void agent_run_totals_tick(struct agent *a) {
        for (size_t i = 0; a->run_totals && i < RUN_TOTALS_MAX; i++) {
                const char *run = a->run_totals->runs[i].total.run;

                if (run[0] && !lives(a, run) && a->ticks - a->run_totals->runs[i].told > 1)
                        forget(a, i);
        }
}

void agent_run_totals_stop(struct agent *a) {
        free(a->run_totals);
        a->run_totals = NULL;
}
