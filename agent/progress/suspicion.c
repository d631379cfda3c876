/* SPDX-License-Identifier: Apache-2.0 */
#include "suspicion.h"

#include <assert.h>

#include "texts.h"

/* --- What a run takes of its host --------------------------------------------------------------------- */

#define CORES_MORE 1.5 /* a compiler takes so many more than steps do, */
#define CORES_TIMES 1.5
#define WRITTEN_MORE (4.0 * 1024 * 1024) /* bytes a second: far above what a log takes, */
#define WRITTEN_TIMES 4.0
#define NET_TELLS 50e3 /* bytes a second: below, the network says nothing of a run */
#define LATELY (10 * USEC_PER_SEC)

static double counter_rate(int64_t from, int64_t to, usec_t span) {
        return from < 0 || to < from ? -1 : (double) (to - from) * USEC_PER_SEC / (double) span;
}

/* The rates between two readings. All unknown when no time lies between them; a counter that went back is
 * unknown. */
static struct activity_rate activity_between(const struct activity_reading *from,
                                             const struct activity_reading *to) {
        usec_t span = to->at > from->at ? to->at - from->at : 0;
        struct activity_rate r = { .cores = -1, .written = -1, .net = -1 };

        if (from->at == 0 || span == 0)
                return r;
        r.cores = counter_rate(from->cpu_usec, to->cpu_usec, span);
        if (r.cores > 0)
                r.cores /= USEC_PER_SEC;
        r.written = counter_rate(from->written_bytes, to->written_bytes, span);
        r.net = counter_rate(from->net_bytes, to->net_bytes, span);
        return r;
}

/* calm: steps went on since the last reading, without a pause; unless the next step tells otherwise, that is
 * usual. */
static void activity_take(struct activity *a, const struct activity_reading *r, bool calm) {
        if (calm && a->last.at > 0 && r->at > a->last.at) {
                a->pending = activity_between(&a->last, r);
                a->pends = true;
        }
        if (a->mark.at == 0)
                a->mark = a->mid = *r;
        else if (r->at >= a->mid.at + LATELY) {
                a->mark = a->mid;
                a->mid = *r;
        }
        a->last = *r;
}

/* A step was done, after no longer than it should take, or not: what is read next is behind it. */
static void activity_stepped(struct activity *a, bool in_time) {
        assert(a->n <= ACTIVITY_KEPT && a->next < ACTIVITY_KEPT);
        if (a->pends && in_time) {
                a->usual[a->next] = a->pending;
                a->next = (a->next + 1) % ACTIVITY_KEPT;
                a->n = MIN(a->n + 1, ACTIVITY_KEPT);
        }
        a->pends = false;
        a->mark.at = 0;
}

/* Lately, up to the last reading; of what lies behind the last step alone. */
static struct activity_rate activity_since(const struct activity *a) {
        return activity_between(&a->mark, &a->last);
}

static int compare_doubles(const void *a, const void *b) {
        return COMPARE(*(const double *) a, *(const double *) b);
}

/* Of what is known among one column of the rates. */
static double median_of(const struct activity *a, size_t offset) {
        double known[ACTIVITY_KEPT];
        size_t n = 0;

        for (uint32_t i = 0; i < a->n; i++) {
                double v = *(const double *) (const void *) ((const char *) &a->usual[i] + offset);

                if (v >= 0)
                        known[n++] = v;
        }
        if (n < ACTIVITY_ENOUGH)
                return -1;
        qsort(known, n, sizeof(known[0]), compare_doubles);
        return known[n / 2];
}

/* The median of each while steps go on; unknown while too little was seen. */
static struct activity_rate activity_usual(const struct activity *a) {
        return (struct activity_rate){ .cores = median_of(a, offsetof(struct activity_rate, cores)),
                                       .written = median_of(a, offsetof(struct activity_rate, written)),
                                       .net = median_of(a, offsetof(struct activity_rate, net)) };
}

static bool is_about(double usual, double now) {
        return usual >= 0 && now >= usual / 4 && now <= usual * 4;
}

static bool as_usual(const struct activity_rate *usual, const struct activity_rate *now) {
        return usual->net >= NET_TELLS && is_about(usual->net, now->net) &&
               is_about(usual->cores, now->cores);
}

/*
 * It does something: it writes, or burns more cores, as checkpoints and compilers do; or it takes the CPU
 * and the network that steps take, which a long step behind a pause does and nothing that stands. Unknown is
 * no.
 */
static bool activity_is_work(const struct activity_rate *usual, const struct activity_rate *now) {
        bool cores = now->cores >= 0 && usual->cores >= 0 && now->cores >= usual->cores + CORES_MORE &&
                     now->cores >= usual->cores * CORES_TIMES;

        return cores || as_usual(usual, now) ||
               (now->written >= WRITTEN_MORE && now->written >= WRITTEN_TIMES * MAX(usual->written, 0));
}

/* --- Silence ------------------------------------------------------------------------------------------- */

#define NET_USUAL 100e3 /* bytes a second: below that the network says nothing */
#define NET_SHARE 0.1
#define IDLE_SHARE 0.1
#define IDLE_CORES 0.05
#define CHANGED 2.0 /* times more, or less, than usual */
#define FLAT_SHARE 0.05
#define FLAT_CORES 0.02
#define DEVICE_IDLE 10.0

static bool cpu_is_silent(const struct silence *s, double usual, double cores) {
        double low = s->since > 0 ? MIN(s->low, cores) : cores,
               high = s->since > 0 ? MAX(s->high, cores) : cores;

        if (usual < 0 || cores < 0)
                return false;
        if (high <= MAX(usual * IDLE_SHARE, IDLE_CORES))
                return true;
        return high - low <= MAX(high * FLAT_SHARE, FLAT_CORES) &&
               (low >= usual * CHANGED || high <= usual / CHANGED);
}

/*
 * One window of readings, that ended at now; line_at: the last line of the log (0: none); idle: seconds that
 * the TPU did nothing (negative: not known). Returns whether it was silent.
 */
static bool silence_take(struct silence *s, const struct activity *a, const struct activity_rate *window,
                         usec_t began, usec_t now, usec_t line_at, double idle) {
        struct activity_rate usual = activity_usual(a);
        bool silent = a->n >= SILENCE_WINDOWS && usual.net >= NET_USUAL && window->net >= 0 &&
                      window->net <= usual.net * NET_SHARE && now - MIN(now, line_at) >= SILENCE_LOG &&
                      (idle < 0 || idle >= DEVICE_IDLE) && cpu_is_silent(s, usual.cores, window->cores);

        if (!silent) {
                s->since = 0;
                return false;
        }
        s->low = s->since > 0 ? MIN(s->low, window->cores) : window->cores;
        s->high = s->since > 0 ? MAX(s->high, window->cores) : window->cores;
        if (s->since == 0)
                s->since = began;
        return true;
}

usec_t silence_due(const struct silence *s) {
        return s->since > 0 ? s->since + SILENCE_SPAN : USEC_INFINITY;
}

/* --- Suspicion ---------------------------------------------------------------------------------------- */

#define EARLY_LEAST (60 * USEC_PER_SEC) /* while too few intervals are known */
#define EARLY_TIMES 5
#define SECOND_STEP (600 * USEC_PER_SEC)
/* of the first pause of its kind, while the run works; a step follows it */
#define ANNOUNCED_FIRST (60 * USEC_PER_SEC)
#define WORKING_CORES 0.2 /* while it is not known what is usual */
#define MARK_BEFORE (3 * USEC_PER_SEC)
#define LOOK_AGAIN (10 * USEC_PER_SEC)
#define LONG_ONES 4 /* in a row: that is the run's pace from now on */
#define LATE_STEPS 2 /* so far behind, a line is another process's, which is a little late */

const char *suspicion_kind_name(enum suspicion_kind k) {
        static const char *const names[] = {
                [SUSPICION_STALL] = "stall",
                [SUSPICION_WORK] = "work",
                [SUSPICION_PAUSE] = "pause",
        };

        return names[k];
}

void run_watch_init(struct run_watch *w) {
        *w = (struct run_watch){ .calm = false };
}

/* --- How long one may wait for a step ------------------------------------------------------------------ */

static usec_t ordinary_limit(const struct run_watch *w) {
        if (w->rhythm.n == 0)
                return SECOND_STEP;
        if (w->rhythm.n < SUSPICION_STEPS)
                return MAX(EARLY_LEAST, EARLY_TIMES * rhythm_quantile(&w->rhythm, 100));
        return MAX(SUSPICION_LEAST, (usec_t) (SUSPICION_TIMES * (double) rhythm_median(&w->rhythm)));
}

/* Pauses come longer than before, a little. */
static usec_t pause_limit(usec_t longest) {
        return longest + longest / 2;
}

/* Until when: the first instant at which a step is overdue. */
static usec_t patience(const struct run_watch *w) {
        usec_t until =
                w->last_at + MAX(ordinary_limit(w), pause_limit(pauses_expected(&w->pauses, w->last_step)));

        if (w->announced != PAUSE_NONE)
                until = MAX(until, w->announced_at + pause_limit(w->pauses.longest[w->announced]));
        if (w->alive_at > 0)
                until = MAX(until, w->alive_at + ordinary_limit(w));
        return MAX(until, w->look_at);
}

/* --- Steps and lines ----------------------------------------------------------------------------------- */

/* True: it was longer than it should be. */
static bool learn_interval(struct run_watch *w, usec_t interval) {
        if (w->rhythm.n < SUSPICION_STEPS || interval <= ordinary_limit(w)) {
                w->long_ones = 0;
                rhythm_add(&w->rhythm, interval);
                return false;
        }
        w->rough = true;
        if (++w->long_ones >= LONG_ONES) { /* learned again */
                rhythm_clear(&w->rhythm);
                w->long_ones = 0;
        } else
                pauses_take(&w->pauses, w->last_step, interval);
        rhythm_add(&w->rhythm, interval);
        return true;
}

/* A pause that was reported, and not reported to be over, ends with the step. */
static void learn_told(struct run_watch *w, usec_t at) {
        if (w->announced != PAUSE_NONE && at > w->announced_at + SUSPICION_LEAST / 2)
                pauses_told(&w->pauses, w->announced, at - w->announced_at);
}

static enum run_step step_is(const struct run_watch *w, uint64_t step, usec_t at) {
        if (!w->stepped || step > w->last_step)
                return RUN_STEP_FORWARD;
        if (step == w->last_step)
                return RUN_STEP_SAME;
        /* A process that is a little late says it soon after the others; one that began again does not. */
        return w->last_step - step > LATE_STEPS || at - MIN(at, w->last_at) > ordinary_limit(w) / 2
                       ? RUN_STEP_BACK
                       : RUN_STEP_SAME;
}

enum run_step run_watch_step(struct run_watch *w, uint64_t step, usec_t at, struct run_stepped *ret) {
        enum run_step is = step_is(w, step, at);

        *ret = (struct run_stepped){ .told = w->told };
        at = MAX(at, w->last_at);
        w->line_at = MAX(at, w->line_at);
        if (is == RUN_STEP_SAME)
                return is;
        if (w->stepped && is == RUN_STEP_FORWARD) {
                w->calm = true;
                ret->interval = at - w->last_at;
                ret->steps = step - w->last_step;
                ret->late = learn_interval(w, at - w->last_at);
        }
        activity_stepped(&w->activity, !w->rough);
        if (w->suspicion.suspected)
                ret->ended = w->suspicion;
        w->suspicion.suspected = false;
        w->stepped = true;
        w->last_step = step;
        w->last_at = at;
        learn_told(w, at);
        w->announced = w->told = PAUSE_NONE;
        w->look_at = w->alive_at = 0;
        return is;
}

void run_watch_line(struct run_watch *w, const char *line, size_t len, usec_t at) {
        enum pause_kind kind = PAUSE_NONE;
        enum pause_sign sign = pause_sign_of(line, len, &kind);

        w->line_at = MAX(at, w->line_at);
        if (sign == PAUSE_SIGN_NONE)
                return;
        if (sign != PAUSE_BEGINS &&
            (sign == PAUSE_GOES_ON || w->announced != PAUSE_NONE || w->alive_at == 0))
                w->alive_at = at;
        w->told = kind;
        if (w->announced != PAUSE_NONE && (w->announced != kind || sign == PAUSE_ENDS))
                learn_told(w, at);
        if (sign == PAUSE_ENDS)
                w->announced = PAUSE_NONE;
        else if (w->announced != kind) {
                w->announced = kind;
                w->announced_at = at;
        }
}

/* Without steps, what is usual is what the run takes while it is not silent. */
static bool is_busy(struct run_watch *w, const struct activity_reading *r) {
        struct activity_rate window = activity_between(&w->activity.last, r);

        return !silence_take(&w->silence, &w->activity, &window, w->activity.last.at, r->at, w->line_at,
                             r->device_idle);
}

bool run_watch_reading(struct run_watch *w, const struct activity_reading *r, struct suspicion *ret_ended) {
        bool busy, ended;

        if (w->stepped) {
                activity_take(&w->activity, r, w->calm && !w->rough);
                w->calm = w->rough = false;
                return false;
        }
        busy = is_busy(w, r);
        activity_take(&w->activity, r, busy);
        if (busy)
                activity_stepped(&w->activity, true);
        ended = busy && w->suspicion.suspected;
        if (ended) {
                *ret_ended = w->suspicion;
                w->suspicion.suspected = false;
        }
        return ended;
}

/* --- Suspicion ----------------------------------------------------------------------------------------- */

void run_watch_blind(struct run_watch *w, usec_t now) {
        if (w->suspicion.suspected)
                w->look_at = now + LOOK_AGAIN;
        else if (w->stepped)
                w->alive_at = now;
}

usec_t run_watch_due(const struct run_watch *w) {
        usec_t due;

        if (!w->stepped && !w->suspicion.suspected)
                return silence_due(&w->silence);
        if (w->suspicion.suspected)
                return w->suspicion.counts ? USEC_INFINITY
                                           : MAX(w->suspicion.at + SUSPICION_GRACE, w->look_at);
        due = patience(w);
        /* a reading before, so that it is known then what the run does */
        return w->activity.mark.at == 0 && due > w->last_at + MARK_BEFORE ? due - MARK_BEFORE : due;
}

static usec_t announced_end(const struct run_watch *w) {
        return w->announced_at + ANNOUNCED_FIRST + ordinary_limit(w);
}

/* The first pause of a kind that the log announced may last, while something is done in it. */
static bool may_go_on(const struct run_watch *w, const struct suspicion *s, usec_t now) {
        if (w->announced == PAUSE_NONE || w->pauses.longest[w->announced] > 0 || now >= announced_end(w))
                return false;
        return s->now.cores < 0 ||
               s->now.cores >= (s->usual.cores >= 0 ? s->usual.cores / 2 : WORKING_CORES);
}

#define add_reason(why, ...) text_append(why, SUSPICION_WHY_MAX, "", __VA_ARGS__)

static double seconds(usec_t t) {
        return (double) t / USEC_PER_SEC;
}

static void say_activity(struct suspicion *s) {
        if (s->now.cores >= 0 && s->usual.cores >= 0)
                add_reason(s->why, ", the run's CPU %s from %.1f to %.1f cores",
                           s->now.cores < s->usual.cores ? "fell" : "rose", s->usual.cores, s->now.cores);
        if (s->now.net >= 0 && s->usual.net >= 0)
                add_reason(s->why, ", the network %s from %.2f to %.2f MB/s",
                           s->now.net < s->usual.net ? "fell" : "rose", s->usual.net / 1e6,
                           s->now.net / 1e6);
        if (s->kind == SUSPICION_WORK && s->now.written >= 0)
                add_reason(s->why, ", it writes %.1f MB/s", s->now.written / 1e6);
}

static void say_why(const struct run_watch *w, struct suspicion *s) {
        usec_t silent = s->at - MIN(s->at, MAX(w->line_at, s->since));

        if (w->stepped)
                (void) snprintf(s->why, sizeof(s->why), "no step for %.0f s after step %" PRIu64,
                                seconds(s->at - s->since), s->last_step);
        else
                (void) snprintf(s->why, sizeof(s->why),
                                "its log tells no steps, and for %.0f s nothing else moves",
                                seconds(s->at - s->since));
        if (s->expected > 0)
                add_reason(s->why, ", steps took %.1f s (median of %u)", seconds(s->expected), w->rhythm.n);
        if (w->announced != PAUSE_NONE && w->pauses.longest[w->announced] > 0)
                add_reason(s->why, ", the longest %s took %.0f s", pause_kind_name(w->announced),
                           seconds(w->pauses.longest[w->announced]));
        say_activity(s);
        if (w->activity.last.device_idle >= 1)
                add_reason(s->why, ", the TPU is idle for %.0f s", w->activity.last.device_idle);
        add_reason(s->why, ", its log is silent for %.0f s", seconds(silent));
        if (w->announced != PAUSE_NONE)
                add_reason(s->why, "; its log had reported a pause (%s)", pause_kind_name(w->announced));
}

static enum suspicion_kind kind_of(const struct run_watch *w, const struct suspicion *s) {
        return w->announced != PAUSE_NONE              ? SUSPICION_PAUSE
               : activity_is_work(&s->usual, &s->now) ? SUSPICION_WORK
                                                      : SUSPICION_STALL;
}

enum run_judged run_watch_judge(struct run_watch *w, usec_t now) {
        bool known = w->suspicion.suspected;
        struct suspicion s = {
                .suspected = true,
                .since = w->stepped ? w->last_at : w->silence.since,
                .at = now,
                .last_step = w->stepped ? w->last_step : SUSPICION_STEP_NONE,
                .expected = rhythm_median(&w->rhythm),
                .limit = w->suspicion.suspected ? w->suspicion.limit
                         : w->stepped           ? patience(w) - w->last_at
                                                : SILENCE_SPAN,
                .usual = activity_usual(&w->activity),
                .now = activity_since(&w->activity),
        };

        if (now < run_watch_due(w) || (!known && w->stepped && now < patience(w)))
                return RUN_JUDGED_SAME;
        if (!known && may_go_on(w, &s, now)) {
                w->look_at = MIN(now + LOOK_AGAIN, announced_end(w));
                return RUN_JUDGED_SAME;
        }
        s.kind = kind_of(w, &s);
        if (known && activity_is_work(&s.usual, &s.now) && now < w->suspicion.at + SUSPICION_WORK_MAX) {
                w->look_at = now + LOOK_AGAIN;
                return RUN_JUDGED_SAME;
        }
        s.counts = known ||
                   (w->stepped && s.kind == SUSPICION_STALL && (s.usual.cores >= 0 || s.now.cores < 0));
        say_why(w, &s);
        if (known) {
                s.since = w->suspicion.since;
                s.kind = w->suspicion.kind; /* as it was reported */
                s.at = w->suspicion.at;
                s.at_real = w->suspicion.at_real;
        } else
                w->suspicions[s.kind]++;
        w->suspicion = s;
        return known ? RUN_JUDGED_COUNTS : RUN_JUDGED_SUSPECTED;
}
