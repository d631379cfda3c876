/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the runs of this host make steps. What they print comes from run_log.h, what they take is read at each tick and
 * when a suspicion falls due: for that there is one timer, and nothing is polled.
 */
#include <math.h>

#include "agent.h"
#include "libtpu_part.h"
#include "metrics_part.h"
#include "goodput.h"
#include "log.h"
#include "rhythm.h"
#include "suspicion.h"

struct watched {
        char run[64], invocation[33];
        struct run_watch watch;
        struct goodput goodput;
        struct step_times times;
        bool over; /* it ended; its next start, if there is one, begins with the time since then */
};

#define FIRST_LOOK (3 * USEC_PER_SEC) /* after the start: by then it is known which runs of the journal still run */

struct agent_progress {
        struct bus *bus;
        usec_t started;
        sd_event_source *timer;
        struct watched *runs[RUN_LOG_RUNS_MAX];
        size_t n;
};

/* --- Runs ---------------------------------------------------------------------------------------------- */

static struct watched *find(const struct bus *b, const char *run) {
        const struct agent_progress *p = agent_of(b)->progress;

        for (size_t i = 0; p && i < p->n; i++)
                if (streq(p->runs[i]->run, run))
                        return p->runs[i];
        return NULL;
}

static void drop(struct agent_progress *p, size_t i) {
        free(p->runs[i]);
        p->runs[i] = p->runs[--p->n];
}

static bool make_room(struct agent_progress *p) {
        for (size_t i = 0; p->n == ELEMENTSOF(p->runs) && i < p->n; i++)
                if (p->runs[i]->over)
                        drop(p, i);
        return p->n < ELEMENTSOF(p->runs);
}

/* NULL: no memory, or more runs than a host has. */
static struct watched *find_or_add(struct agent_progress *p, const char *run) {
        struct watched *w = find(p->bus, run);

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

const struct suspicion *agent_suspicion(const struct bus *b, const char *run) {
        const struct watched *w = find(b, run);

        return w && w->watch.suspicion.suspected ? &w->watch.suspicion : NULL;
}

usec_t agent_step_time(const struct bus *b, const char *run) {
        const struct watched *w = find(b, run);

        return w ? rhythm_median(&w->watch.rhythm) : 0;
}

double agent_goodput(const struct bus *b, const char *run) {
        const struct watched *w = find(b, run);
        usec_t total = w ? goodput_total(&w->goodput) : 0;

        return total > 0 ? (double) w->goodput.spent[GOODPUT_STEP] / (double) total : NAN;
}

bool agent_pause_announced(const struct bus *b, const char *run) {
        const struct watched *w = find(b, run);

        return w && w->watch.announced != PAUSE_NONE;
}

uint64_t agent_last_step(const struct bus *b, const char *run) {
        const struct watched *w = find(b, run);

        return w && w->watch.stepped ? w->watch.last_step : SUSPICION_STEP_NONE;
}

/* --- Events -------------------------------------------------------------------------------------------- */

static uint64_t generation_of(const struct bus *b, const char *run) {
        const struct host_run *j = host_runs_find(b->runs, run);

        return j ? j->generation : 0;
}

static int64_t step_number(uint64_t step) {
        return step == SUSPICION_STEP_NONE ? -1 : (int64_t) MIN(step, (uint64_t) INT64_MAX);
}

static void tell_suspected(struct bus *b, const struct watched *w) {
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
static void tell_recovered(struct bus *b, const struct watched *w, const struct suspicion *s, const char *how, usec_t now) {
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

static void read_counters(struct bus *b, struct watched *w, bool anew, usec_t now) {
        struct run_counters c;
        struct suspicion ended;

        host_metrics_run_counters(metrics_of(b), w->run, anew, &c);
        if (run_watch_reading(&w->watch,
                              &(struct activity_reading){ .at = now,
                                                          .cpu_usec = c.cpu_usec,
                                                          .written_bytes = c.written_bytes,
                                                          .net_bytes = c.net_bytes,
                                                          .device_idle = device_idle(b, now) },
                              &ended))
                tell_recovered(b, w, &ended, "activity", now);
}

/* The timer stands at the first suspicion that would fall due. */
static void arm(struct agent_progress *p) {
        usec_t due = USEC_INFINITY, now = host_now(p->bus->host);

        for (size_t i = 0; i < p->n; i++)
                due = MIN(due, p->runs[i]->over ? USEC_INFINITY : run_watch_due(&p->runs[i]->watch));
        due = MAX(due, p->started + FIRST_LOOK);
        /* Both fail only for a source without a loop. */
        if (due == USEC_INFINITY)
                (void) sd_event_source_set_enabled(p->timer, SD_EVENT_OFF);
        else if (sd_event_source_set_time_relative(p->timer, due > now ? due - now : 0) >= 0)
                (void) sd_event_source_set_enabled(p->timer, SD_EVENT_ONESHOT);
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

static void judge(struct bus *b, struct watched *w, usec_t now) {
        switch (run_watch_judge(&w->watch, now)) {
        case RUN_JUDGED_SAME:
                return;
        case RUN_JUDGED_SUSPECTED:
                w->watch.suspicion.at_real = host_now_real(b->host);
                tell_suspected(b, w);
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
        struct agent_progress *p = userdata;
        usec_t now = host_now(p->bus->host);

        (void) source;
        (void) at;
        if (agent_of(p->bus)->run_log && !run_log_look(agent_of(p->bus)->run_log)) /* the step may be there, and not read yet */
                now = 0; /* nothing is judged before all is */
        for (size_t i = 0; i < p->n; i++) {
                struct watched *w = p->runs[i];

                if (w->over || run_watch_due(&w->watch) > now)
                        continue;
                read_counters(p->bus, w, true, now);
                judge(p->bus, w, now);
        }
        arm(p);
        return 0;
}

/* Another start of the run: nothing of what was learned is believed of it. */
static void begin_anew(struct bus *b, struct watched *w, const char *invocation, usec_t now) {
        if (w->watch.suspicion.suspected)
                tell_recovered(b, w, &w->watch.suspicion, "restart", now);
        run_watch_init(&w->watch);
        w->over = false;
        (void) snprintf(w->invocation, sizeof(w->invocation), "%s", invocation);
}

void agent_progress_line(struct bus *b, const struct run_log_line *l) {
        struct watched *w = agent_of(b)->progress ? find_or_add(agent_of(b)->progress, l->run) : NULL;
        struct run_stepped stepped;

        if (!w)
                return;
        if (!streq(w->invocation, l->invocation))
                begin_anew(b, w, l->invocation, l->at);
        if (!l->step) {
                run_watch_line(&w->watch, l->text, l->len, l->at);
                return;
        }
        if (run_watch_step(&w->watch, l->step->step, l->at, &stepped) == RUN_STEP_SAME)
                return;
        step_times_add(&w->times, stepped.interval, stepped.steps);
        goodput_step(&w->goodput, l->step->step, l->at, stepped.late ? rhythm_median(&w->watch.rhythm) : 0,
                     isfinite(l->step->seconds) ? (usec_t) (l->step->seconds * USEC_PER_SEC) : 0,
                     cause_of(&stepped.ended, stepped.told));
        if (stepped.ended.suspected)
                tell_recovered(b, w, &stepped.ended, "step", l->at);
        arm(agent_of(b)->progress);
}

void agent_progress_started(struct bus *b, const struct host_run *run) {
        usec_t now = host_now(b->host), real = host_now_real(b->host), ago = real > run->started_real ? real - run->started_real : 0;
        struct watched *w = agent_of(b)->progress ? find_or_add(agent_of(b)->progress, run->name) : NULL;

        if (!w)
                return;
        w->over = false;
        goodput_begin(&w->goodput, now - MIN(now, ago), w->goodput.mark > 0);
}

void agent_progress_ended(struct bus *b, const char *run) {
        struct watched *w = find(b, run);
        usec_t now = host_now(b->host);

        if (!w)
                return;
        if (w->watch.suspicion.suspected)
                tell_recovered(b, w, &w->watch.suspicion, "end", now);
        goodput_end(&w->goodput, now, w->watch.suspicion.suspected ? cause_of(&w->watch.suspicion, w->watch.told) : GOODPUT_STEP);
        run_watch_init(&w->watch);
        w->over = true;
        arm(agent_of(b)->progress);
}

/* Runs that have said nothing yet are watched, too. */
static void watch_all(struct agent_progress *p, const struct host_runs *runs) {
        for (size_t i = 0; runs->known && i < runs->n; i++)
                if (host_run_lives(&runs->runs[i]))
                        (void) find_or_add(p, runs->runs[i].name); /* the next tick tries again */
}

/* --- The tick ------------------------------------------------------------------------------------------ */

static void sample_run(struct sink *s, const struct watched *w) {
        const struct run_watch *r = &w->watch;

        for (enum suspicion_kind k = 0; k < _SUSPICION_KIND_MAX; k++)
                put_uint(s, METRIC_RUN_SUSPICIONS, r->suspicions[k], w->run, suspicion_kind_name(k), NULL);
        put_int(s, METRIC_RUN_SUSPECTED, r->suspicion.suspected, w->run, NULL, NULL);
}

static void sample_steps(struct sink *s, const struct watched *w) {
        const struct step_times *t = &w->times;
        const struct sample_histogram h = { .count = t->n,
                                            .sum = t->sum,
                                            .min = t->n > 0 ? t->min : NAN,
                                            .max = t->n > 0 ? t->max : NAN,
                                            .bounds = step_times_bounds,
                                            .counts = t->counts,
                                            .n_bounds = STEP_TIMES_BOUNDS };

        if (t->n > 0)
                put_histogram(s, METRIC_RUN_STEP_DURATION, &h, w->run, NULL);
}

static void sample_time(struct sink *s, const struct watched *w) {
        for (enum goodput_cause c = 0; w->goodput.mark > 0 && c < _GOODPUT_MAX; c++)
                put_double(s, METRIC_RUN_TIME, (double) w->goodput.spent[c] / USEC_PER_SEC, w->run,
                           goodput_cause_name(c), NULL);
}

void agent_progress_tick(struct bus *b, struct sink *s) {
        struct agent_progress *p = agent_of(b)->progress;
        const struct host_runs *runs = b->runs;
        usec_t now = host_now(b->host);
        bool silent = false; /* of a run without steps: only readings tell when it is due */

        if (!p)
                return;
        watch_all(p, runs);
        for (size_t i = p->n; i > 0; i--) {
                struct watched *w = p->runs[i - 1];
                const struct host_run *j = host_runs_find(b->runs, w->run);

                if (runs->known && !j) {
                        drop(p, i - 1);
                        continue;
                }
                w->over = w->over || (j && !host_run_lives(j));
                if (w->over)
                        continue;
                if (j && w->goodput.mark == 0) /* it ran before this agent did */
                        goodput_join(&w->goodput, now);
                read_counters(b, w, false, now);
                count_lost(w, now);
                silent = silent || silence_due(&w->watch.silence) != USEC_INFINITY;
                sample_run(s, w);
                sample_time(s, w);
                sample_steps(s, w);
        }
        if (silent)
                arm(p);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int agent_progress_start(struct bus *b) {
        struct agent_progress *p = calloc(1, sizeof(*p));
        int r;

        if (!p)
                return -ENOMEM;
        p->bus = b;
        p->started = host_now(b->host);
        agent_of(b)->progress = p;
        r = sd_event_add_time(b->event, &p->timer, CLOCK_BOOTTIME, 0, 100 * USEC_PER_MSEC, on_due, p);
        if (r >= 0)
                r = sd_event_source_set_description(p->timer, "stall-due");
        return r < 0 ? r : sd_event_source_set_enabled(p->timer, SD_EVENT_OFF);
}

void agent_progress_stop(struct bus *b) {
        struct agent_progress *p = agent_of(b)->progress;

        if (!p)
                return;
        while (p->n > 0)
                drop(p, p->n - 1);
        p->timer = sd_event_source_disable_unref(p->timer);
        free(p);
        agent_of(b)->progress = NULL;
}
