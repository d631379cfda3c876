/* SPDX-License-Identifier: Apache-2.0 */
#include "progress_part.h"

#include <assert.h>
#include <math.h>

#include "deaths_part.h"
#include "goodput.h"
#include "journal.h"
#include "libtpu_part.h"
#include "log.h"
#include "loop_timer.h"
#include "metrics_part.h"
#include "rhythm.h"
#include "run_samples.h"
#include "runs_json.h"
#include "runs_part.h"

struct watched {
        char run[64], invocation[33];
        struct run_watch watch;
        struct goodput goodput;
        struct step_times times;
        struct checkpoint checkpoint; /* of an earlier start, too: it is what the next one resumes from */
        struct step_line step; /* as its last line has it, where there was one */
        bool any_step;
        usec_t recent, best; /* the median of the last step intervals, and its least; 0: not known */
        unsigned steps_a_line; /* 0: not known */
        bool over; /* it ended; its next start, if there is one, begins with the time since then */
};

#define RECENT_STEPS 8u

/* After the start: by then it is known which runs of the journal still run. */
#define FIRST_LOOK (3 * USEC_PER_SEC)

struct progress_state {
        struct bus *bus;
        usec_t started;
        sd_event_source *due; /* the first suspicion that would fall due */
        struct watched *runs[RUN_LOG_RUNS_MAX];
        size_t n;
};

/* --- Runs ---------------------------------------------------------------------------------------------- */

static struct watched *watched_find(const struct progress_state *p, const char *run) {
        for (size_t i = 0; i < p->n; i++)
                if (streq(p->runs[i]->run, run))
                        return p->runs[i];
        return NULL;
}

static void forget_watched(struct progress_state *p, size_t i) {
        free(p->runs[i]);
        p->runs[i] = p->runs[--p->n];
}

static bool make_room(struct progress_state *p) {
        assert(p->n <= ELEMENTSOF(p->runs));
        for (size_t i = 0; p->n == ELEMENTSOF(p->runs) && i < p->n; i++)
                if (p->runs[i]->over)
                        forget_watched(p, i);
        return p->n < ELEMENTSOF(p->runs);
}

/* NULL: no memory, or more runs than a host has. */
static struct watched *watched_get(struct progress_state *p, const char *run) {
        struct watched *w = watched_find(p, run);

        if (w || !make_room(p))
                return w;
        w = calloc(1, sizeof(*w));
        if (!w)
                return NULL;
        (void) snprintf(w->run, sizeof(w->run), "%s", run);
        run_watch_init(&w->watch);
        p->runs[p->n++] = w;
        return w;
}

/* --- Events -------------------------------------------------------------------------------------------- */

static uint64_t generation_of(const struct bus *b, const char *run) {
        const struct host_run *j = host_runs_find(b->runs, run);

        return j ? j->generation : 0;
}

static int64_t step_number(uint64_t step) {
        return step == SUSPICION_STEP_NONE ? -1 : (int64_t) MIN(step, (uint64_t) INT64_MAX);
}

/* -1: not known. */
static int64_t last_step_of(const struct watched *w) {
        return w->watch.stepped ? step_number(w->watch.last_step) : -1;
}

static int64_t steps_since(const struct watched *w) {
        return checkpoint_steps_since(&w->checkpoint, last_step_of(w));
}

static void report_suspected(struct bus *b, const struct watched *w) {
        const struct suspicion *s = &w->watch.suspicion;
        const char *slice = identity_get(&b->identity, IDENTITY_SLICE_NAME);

        (void) bus_emit(b,
                          EVENT_AS(RUN_STALL_SUSPECTED,
                                   s->kind == SUSPICION_STALL ? SEVERITY_WARN : SEVERITY_INFO, .run = w->run,
                                   .generation = (int64_t) generation_of(b, w->run),
                                   .slice = slice ? slice : "", .kind = suspicion_kind_name(s->kind),
                                   .last_step = step_number(s->last_step),
                                   .step_msec = (int64_t) (s->expected / USEC_PER_MSEC),
                                   .silent_msec = (int64_t) ((s->at - s->since) / USEC_PER_MSEC),
                                   .why = s->why),
                          NULL);
}

/* how: "step", "activity" (of a run without steps), "restart" or "end". */
static void report_recovered(struct bus *b, const struct watched *w, const struct suspicion *s,
                             const char *how, usec_t now) {
        usec_t lasted = now - MIN(now, s->since);

        (void) bus_emit(b,
                          EVENT_OF(RUN_RECOVERED, .run = w->run,
                                   .generation = (int64_t) generation_of(b, w->run), .how = how,
                                   .kind = suspicion_kind_name(s->kind),
                                   .last_step = step_number(s->last_step),
                                   .lasted_msec = (int64_t) (lasted / USEC_PER_MSEC), .episode = NULL),
                          NULL);
        bus_publish(b, &(struct bus_news){ .topic = BUS_SUSPICION, .suspicion = { .run = w->run } });
}

/* --- What is seen -------------------------------------------------------------------------------------- */

#define DEVICE_FRESH (60 * USEC_PER_SEC)

/* Seconds that the TPU has done nothing; -1: not known. */
static double device_idle(const struct bus *b, usec_t now) {
        const struct libtpu_reading *r = libtpu_reading(b);

        if (!r || r->at == 0 || !isfinite(r->idle_seconds) || now - MIN(now, r->at) > DEVICE_FRESH)
                return -1;
        return r->idle_seconds + (double) (now - MIN(now, r->at)) / USEC_PER_SEC;
}

static void read_counters(struct bus *b, struct watched *w, bool fresh, usec_t now) {
        struct run_counters c;
        struct suspicion ended;

        host_metrics_run_counters(metrics_of(b), w->run, host_runs_group(b->runs, w->run), fresh, &c);
        if (run_watch_reading(&w->watch,
                              &(struct activity_reading){ .at = now,
                                                          .cpu_usec = c.cpu_usec,
                                                          .written_bytes = c.written_bytes,
                                                          .net_bytes = c.net_bytes,
                                                          .device_idle = device_idle(b, now) },
                              &ended))
                report_recovered(b, w, &ended, "activity", now);
}

static void arm_due(struct progress_state *p) {
        usec_t due = USEC_INFINITY, now = host_now(p->bus->host);

        for (size_t i = 0; i < p->n; i++)
                due = MIN(due, p->runs[i]->over ? USEC_INFINITY : run_watch_due(&p->runs[i]->watch));
        due = MAX(due, p->started + FIRST_LOOK);
        /* Fails only when the loop ends. */
        (void) loop_timer_in(p->due, due == USEC_INFINITY ? due : due - MIN(due, now));
}

static enum goodput_cause cause_of(const struct suspicion *s, enum pause_kind told) {
        if (told != PAUSE_NONE)
                return goodput_cause_of(told);
        return s->suspected && s->kind == SUSPICION_STALL ? GOODPUT_STALL : GOODPUT_PAUSE;
}

/* A stall is counted while it lasts. */
static void count_lost(struct watched *w, usec_t now) {
        if (w->watch.suspicion.suspected)
                goodput_lose(&w->goodput, now, rhythm_median(&w->watch.rhythm),
                             cause_of(&w->watch.suspicion, w->watch.told));
}

static void judge_run(struct bus *b, struct watched *w, usec_t now) {
        switch (run_watch_judge(&w->watch, now)) {
        case RUN_JUDGED_SAME:
                return;
        case RUN_JUDGED_SUSPECTED:
                w->watch.suspicion.at_real = host_now_real(b->host);
                report_suspected(b, w);
                break;
        case RUN_JUDGED_COUNTS:
                break;
        }
        bus_publish(b, &(struct bus_news){ .topic = BUS_SUSPICION,
                                         .suspicion = { .run = w->run,
                                                        .generation = generation_of(b, w->run),
                                                        .now = &w->watch.suspicion } });
}

static int on_due(sd_event_source *source, uint64_t at, void *userdata) {
        struct progress_state *p = userdata;
        usec_t now = host_now(p->bus->host);
        bool blind = journal_is_away(p->bus->host);

        (void) source;
        (void) at;
        if (!runs_read_all(p->bus)) /* the step may be there, and not read yet */
                now = 0; /* nothing is judged before all is */
        for (size_t i = 0; i < p->n; i++) {
                struct watched *w = p->runs[i];

                if (w->over || run_watch_due(&w->watch) > now)
                        continue;
                if (blind)
                        run_watch_blind(&w->watch, now);
                read_counters(p->bus, w, true, now);
                judge_run(p->bus, w, now);
        }
        arm_due(p);
        return 0;
}

/* Another start of the run: what was learned does not hold for it. */
static void begin_start(struct bus *b, struct watched *w, const char *invocation, usec_t now) {
        if (w->watch.suspicion.suspected)
                report_recovered(b, w, &w->watch.suspicion, "restart", now);
        run_watch_init(&w->watch);
        checkpoint_restart(&w->checkpoint);
        w->recent = w->best = 0;
        w->over = false;
        (void) snprintf(w->invocation, sizeof(w->invocation), "%s", invocation);
}

static void take_checkpoint(struct bus *b, struct watched *w, const struct run_log_line *l) {
        usec_t now = host_now(b->host), real = host_now_real(b->host);

        checkpoint_take(&w->checkpoint, l->text, l->len, last_step_of(w), l->at,
                        real - MIN(real, now - MIN(now, l->at)));
}

static void take_line(struct progress_state *p, const struct run_log_line *l) {
        struct watched *w = watched_get(p, l->run);
        struct run_stepped stepped;
        enum run_step is;
        bool first;

        if (!w)
                return;
        if (!streq(w->invocation, l->invocation))
                begin_start(p->bus, w, l->invocation, l->at);
        take_checkpoint(p->bus, w, l); /* an expression may take such a line for a step, too */
        if (!l->step) {
                run_watch_line(&w->watch, l->text, l->len, l->at);
                return;
        }
        w->step = *l->step; /* also one that goes back: restarted from a checkpoint */
        w->any_step = true;
        first = !w->watch.stepped;
        is = run_watch_step(&w->watch, l->step->step, l->at, &stepped);
        if (is == RUN_STEP_SAME)
                return;
        if (first || is == RUN_STEP_BACK)
                checkpoint_resumed(&w->checkpoint, l->step->step);
        step_times_add(&w->times, stepped.interval, stepped.steps);
        if (stepped.steps > 0)
                w->steps_a_line = (unsigned) MIN(stepped.steps, (uint64_t) UINT16_MAX);
        w->recent = rhythm_recent(&w->watch.rhythm, RECENT_STEPS);
        w->best = w->best == 0 || w->recent == 0 ? MAX(w->best, w->recent) : MIN(w->best, w->recent);
        goodput_step(&w->goodput, l->step->step, l->at, stepped.late ? rhythm_median(&w->watch.rhythm) : 0,
                     isfinite(l->step->seconds) ? (usec_t) (l->step->seconds * USEC_PER_SEC) : 0,
                     cause_of(&stepped.ended, stepped.told));
        if (stepped.ended.suspected)
                report_recovered(p->bus, w, &stepped.ended, "step", l->at);
        arm_due(p);
}

static void take_start(struct progress_state *p, const struct host_run *run) {
        usec_t now = host_now(p->bus->host), real = host_now_real(p->bus->host),
               ago = real - MIN(real, run->started_real);
        struct watched *w = watched_get(p, run->name);

        if (!w)
                return;
        w->over = false;
        goodput_begin(&w->goodput, now - MIN(now, ago), w->goodput.mark > 0);
}

static void take_end(struct progress_state *p, const char *run) {
        struct watched *w = watched_find(p, run);
        const struct suspicion *s = w ? &w->watch.suspicion : NULL;
        usec_t now = host_now(p->bus->host);

        if (!w)
                return;
        if (s->suspected)
                report_recovered(p->bus, w, s, "end", now);
        goodput_end(&w->goodput, now, s->suspected ? cause_of(s, w->watch.told) : GOODPUT_STEP);
        run_watch_init(&w->watch);
        w->over = true;
        arm_due(p);
}

static void hear_progress(void *self, const struct bus_news *n) {
        if (n->topic == BUS_LINE)
                take_line(self, n->line);
        if (n->topic == BUS_RUN_STARTED)
                take_start(self, n->run);
        if (n->topic == BUS_RUN_ENDED)
                take_end(self, n->run->name);
}

/* Runs that have said nothing yet are watched, too. */
static void watch_all(struct progress_state *p, const struct host_runs *runs) {
        for (size_t i = 0; runs->known && i < runs->n; i++)
                if (host_run_lives(&runs->runs[i]))
                        (void) watched_get(p, runs->runs[i].name); /* the next tick tries again */
}

/* --- The tick ------------------------------------------------------------------------------------------ */

static void sample_run(struct sink *s, const struct watched *w) {
        const struct run_watch *r = &w->watch;

        for (enum suspicion_kind k = 0; k < _SUSPICION_KIND_MAX; k++)
                put_uint(s, METRIC_RUN_SUSPICIONS, r->suspicions[k], w->run, suspicion_kind_name(k), NULL);
        put_int(s, METRIC_RUN_SUSPECTED, r->suspicion.suspected, w->run, NULL, NULL);
}

/* Behind the part "metrics", which has read the host's counters. */
static void sample_progress(void *self, struct bus_sink *s) {
        struct progress_state *p = self;
        const struct host_runs *runs = p->bus->runs;
        usec_t now = host_now(p->bus->host), real = host_now_real(p->bus->host);
        bool silent = false; /* of a run without steps: only readings tell when it is due */

        watch_all(p, runs);
        for (size_t i = p->n; i > 0; i--) {
                struct watched *w = p->runs[i - 1];
                const struct host_run *j = host_runs_find(runs, w->run);

                if (runs->known && !j) {
                        forget_watched(p, i - 1);
                        continue;
                }
                w->over = w->over || (j && !host_run_lives(j));
                if (w->over) {
                        w->any_step = false;
                        continue;
                }
                if (j && w->goodput.mark == 0) /* it ran before this agent did */
                        goodput_join(&w->goodput, now);
                read_counters(p->bus, w, false, now);
                count_lost(w, now);
                silent = silent || silence_due(&w->watch.silence) != USEC_INFINITY;
                sample_run(&s->sink, w);
                run_sample_time(&s->sink, w->run, &w->goodput);
                run_sample_step(&s->sink, w->run, w->any_step ? &w->step : NULL);
                run_sample_durations(&s->sink, w->run, &w->times);
                run_sample_checkpoint(&s->sink, w->run, &w->checkpoint, steps_since(w), real);
        }
        if (silent)
                arm_due(p);
}

/* --- What others ask ----------------------------------------------------------------------------------- */

static const struct watched *watched_of(const struct bus *b, const char *run) {
        return watched_find(bus_part(b, &progress_part), run);
}

const struct suspicion *progress_suspicion(const struct bus *b, const char *run) {
        const struct watched *w = watched_of(b, run);

        return w && w->watch.suspicion.suspected ? &w->watch.suspicion : NULL;
}

usec_t progress_step_time(const struct bus *b, const char *run) {
        const struct watched *w = watched_of(b, run);

        return w ? rhythm_median(&w->watch.rhythm) : 0;
}

unsigned progress_steps_a_line(const struct bus *b, const char *run) {
        const struct watched *w = watched_of(b, run);

        return w ? w->steps_a_line : 0;
}

void progress_pace(const struct bus *b, const char *run, usec_t *ret_recent, usec_t *ret_best) {
        const struct watched *w = watched_of(b, run);

        *ret_recent = w ? w->recent : 0;
        *ret_best = w ? w->best : 0;
}

double progress_goodput(const struct bus *b, const char *run) {
        const struct watched *w = watched_of(b, run);

        return w ? goodput_share(&w->goodput) : NAN;
}

const char *progress_doing(const struct bus *b, const char *run) {
        const struct watched *w = watched_of(b, run);

        if (!w || w->over)
                return NULL;
        if (w->watch.suspicion.suspected)
                return goodput_cause_name(cause_of(&w->watch.suspicion, w->watch.told));
        if (w->watch.announced != PAUSE_NONE)
                return goodput_cause_name(goodput_cause_of(w->watch.announced));
        return goodput_cause_name(w->watch.stepped ? GOODPUT_STEP : GOODPUT_START);
}

bool progress_pause_announced(const struct bus *b, const char *run) {
        const struct watched *w = watched_of(b, run);

        return w && w->watch.announced != PAUSE_NONE;
}

const struct step_line *progress_step(const struct bus *b, const char *run) {
        const struct watched *w = watched_of(b, run);

        return w && w->any_step ? &w->step : NULL;
}

const struct checkpoint *progress_checkpoint(const struct bus *b, const char *run, int64_t *ret_since) {
        const struct watched *w = watched_of(b, run);

        if (!w || w->checkpoint.at_real == 0)
                return NULL;
        *ret_since = steps_since(w);
        return &w->checkpoint;
}

uint64_t progress_last_step(const struct bus *b, const char *run) {
        const struct watched *w = watched_of(b, run);

        return w && w->watch.stepped ? w->watch.last_step : SUSPICION_STEP_NONE;
}

static struct run_seen run_seen_of(const char *run, void *userdata) {
        struct bus *b = userdata;
        const struct suspicion *s = progress_suspicion(b, run);
        const struct host_run *j = host_runs_find(b->runs, run);
        const struct watched *w = watched_of(b, run);
        struct run_seen seen = { .step = progress_step(b, run),
                                 .goodput = w ? &w->goodput : NULL,
                                 .suspicion = s ? s->why : NULL };

        seen.checkpoint = progress_checkpoint(b, run, &seen.steps_since);
        if (j && !host_run_lives(j))
                (void) deaths_killed_by(b, j, seen.killed_by);
        return seen;
}

json_t *progress_runs_to_json(struct bus *b) {
        return runs_to_json(b->runs, run_seen_of, b);
}

/* --- The part ------------------------------------------------------------------------------------------ */

static int start_progress(void *self) {
        struct progress_state *p = self;

        p->started = host_now(p->bus->host);
        return loop_timer_new(p->bus->event, CLOCK_BOOTTIME, 100 * USEC_PER_MSEC, "stall-due", on_due, p,
                              &p->due);
}

static void stop_progress(void *self) {
        struct progress_state *p = self;

        while (p->n > 0)
                forget_watched(p, p->n - 1);
        p->due = sd_event_source_disable_unref(p->due);
}

const struct part progress_part = {
        .name = "progress",
        .size = sizeof(struct progress_state),
        .start = start_progress,
        .sample = sample_progress,
        .hear = hear_progress,
        .stop = stop_progress,
};
