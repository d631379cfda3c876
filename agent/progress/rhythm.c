/* SPDX-License-Identifier: Apache-2.0 */
#include "rhythm.h"

#include <assert.h>

#include "grow.h"

/* --- Intervals ----------------------------------------------------------------------------------------- */

void rhythm_clear(struct rhythm *r) {
        r->n = r->next = 0;
}

static size_t place_of(const struct rhythm *r, usec_t v) {
        return SORTED_PLACE(r->n, i, r->sorted[i] < v);
}

static void forget(struct rhythm *r, usec_t v) {
        size_t at = place_of(r, v);

        r->n--;
        memmove(&r->sorted[at], &r->sorted[at + 1], (r->n - at) * sizeof(r->sorted[0]));
}

void rhythm_add(struct rhythm *r, usec_t interval) {
        size_t at;

        if (r->n == RHYTHM_KEPT)
                forget(r, r->last[r->next]);
        at = place_of(r, interval);
        assert(at <= r->n && r->n < RHYTHM_KEPT && r->next < RHYTHM_KEPT);
        memmove(&r->sorted[at + 1], &r->sorted[at], (r->n - at) * sizeof(r->sorted[0]));
        r->sorted[at] = interval;
        r->last[r->next] = interval;
        r->next = (r->next + 1) % RHYTHM_KEPT;
        r->n++;
}

usec_t rhythm_recent(const struct rhythm *r, uint32_t n) {
        usec_t last[RHYTHM_KEPT];

        assert(n > 0 && n <= RHYTHM_KEPT);
        if (r->n < n)
                return 0;
        for (uint32_t i = 0; i < n; i++) { /* sorted while they come */
                usec_t t = r->last[(r->next + RHYTHM_KEPT - 1 - i) % RHYTHM_KEPT];
                uint32_t at = i;

                for (; at > 0 && last[at - 1] > t; at--)
                        last[at] = last[at - 1];
                last[at] = t;
        }
        return last[n / 2];
}

usec_t rhythm_quantile(const struct rhythm *r, unsigned percent) {
        uint32_t rank = (r->n * MIN(percent, 100u) + 99) / 100; /* how many do not exceed it, at least */

        return r->n == 0 ? 0 : r->sorted[rank > 0 ? rank - 1 : 0];
}

usec_t rhythm_median(const struct rhythm *r) {
        return rhythm_quantile(r, 50);
}

/* --- Step times ---------------------------------------------------------------------------------------- */

#define STEPS_AT_ONCE 100000u /* a number that jumps by more is no count of steps */

const double step_times_bounds[STEP_TIMES_BOUNDS] = { 0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3,
                                                      5,    7.5, 10,   15,  20,   30, 60, 120, 300 };

void step_times_add(struct step_times *t, usec_t interval, uint64_t steps) {
        double each;
        size_t i = 0;

        if (steps == 0 || steps > STEPS_AT_ONCE)
                return;
        each = (double) interval / USEC_PER_SEC / (double) steps;
        while (i < STEP_TIMES_BOUNDS && each > step_times_bounds[i])
                i++;
        t->counts[i] += steps;
        t->min = t->n == 0 || each < t->min ? each : t->min;
        t->max = t->n == 0 || each > t->max ? each : t->max;
        t->n += steps;
        t->sum += (double) interval / USEC_PER_SEC;
}

/* --- Pauses: what a line says -------------------------------------------------------------------------- */

const char *pause_kind_name(enum pause_kind k) {
        static const char *const names[] = {
                [PAUSE_NONE] = "pause",
                [PAUSE_COMPILE] = "compile",
                [PAUSE_CHECKPOINT] = "checkpoint",
                [PAUSE_EVALUATION] = "evaluation",
        };

        return names[k];
}

/*
 * Lower case. The first that is found counts, so that what ends a pause, or only reports one, comes before
 * the words in general.
 *   MaxText   checkpointing.py print_save_message(), metric_logger.py, train.py "Completed eval step"
 *   Orbax     "Finished saving checkpoint (finalized tmp dir) to `…`"
 *   JAX       pxla.py under jax_log_compiles: "Compiling NAME with global shapes",
 *             "Finished XLA compilation of"
 *   Megatron  checkpointing.py "saving checkpoint at iteration",
 *             "successfully saved checkpoint from iteration"; training.py "validation loss at iteration"
 *   Trainer   transformers/trainer.py "***** Running Evaluation *****", "Saving model checkpoint to"
 * An asynchronous save gives the run back at once: its line is no pause.
 */
static const struct {
        const char *text;
        enum pause_sign sign;
        enum pause_kind kind;
} signs[] = {
        { "started an asynchronous checkpoint save", PAUSE_SIGN_NONE, PAUSE_NONE },
        { "saved a checkpoint", PAUSE_ENDS, PAUSE_CHECKPOINT },
        { "saved checkpoint", PAUSE_ENDS, PAUSE_CHECKPOINT },
        { "saved model checkpoint", PAUSE_ENDS, PAUSE_CHECKPOINT },
        { "checkpoint saved", PAUSE_ENDS, PAUSE_CHECKPOINT },
        { "finished saving checkpoint", PAUSE_ENDS, PAUSE_CHECKPOINT },
        { "saving checkpoint", PAUSE_BEGINS, PAUSE_CHECKPOINT },
        { "saving a checkpoint", PAUSE_BEGINS, PAUSE_CHECKPOINT },
        { "saving model checkpoint", PAUSE_BEGINS, PAUSE_CHECKPOINT },
        { "writing checkpoint", PAUSE_BEGINS, PAUSE_CHECKPOINT },
        { "eval metrics after step", PAUSE_ENDS, PAUSE_EVALUATION },
        { "validation loss at iteration", PAUSE_ENDS, PAUSE_EVALUATION },
        { "finished evaluat", PAUSE_ENDS, PAUSE_EVALUATION },
        { "evaluation finished", PAUSE_ENDS, PAUSE_EVALUATION },
        { "completed eval step", PAUSE_GOES_ON, PAUSE_EVALUATION },
        { "running evaluation", PAUSE_BEGINS, PAUSE_EVALUATION },
        { "running validation", PAUSE_BEGINS, PAUSE_EVALUATION },
        { "evaluating", PAUSE_BEGINS, PAUSE_EVALUATION },
        { "validating", PAUSE_BEGINS, PAUSE_EVALUATION },
        { "starting evaluation", PAUSE_BEGINS, PAUSE_EVALUATION },
        { "finished xla compilation", PAUSE_ENDS, PAUSE_COMPILE },
        { "compilation finished", PAUSE_ENDS, PAUSE_COMPILE },
        { "compiling", PAUSE_BEGINS, PAUSE_COMPILE },
};

/* Cheap for the many lines that say nothing of it: each text has one of these in it. */
static bool may_say(const char *line, size_t len) {
        static const char *const roots[] = { "checkpoint", "eval", "ompil", "alidat" };

        for (size_t i = 0; i < ELEMENTSOF(roots); i++)
                if (memmem(line, len, roots[i], strlen(roots[i])))
                        return true;
        return memmem(line, len, "Eval", 4) || memmem(line, len, "Checkpoint", 10);
}

enum pause_sign pause_sign_of(const char *line, size_t len, enum pause_kind *ret) {
        char lower[PAUSE_LINE_MAX];

        len = MIN(len, sizeof(lower));
        if (len == 0 || !may_say(line, len))
                return PAUSE_SIGN_NONE;
        for (size_t i = 0; i < len; i++)
                lower[i] = line[i] >= 'A' && line[i] <= 'Z' ? (char) (line[i] | 0x20) : line[i];
        for (size_t i = 0; i < ELEMENTSOF(signs); i++)
                if (memmem(lower, len, signs[i].text, strlen(signs[i].text))) {
                        if (signs[i].sign != PAUSE_SIGN_NONE)
                                *ret = signs[i].kind;
                        return signs[i].sign;
                }
        return PAUSE_SIGN_NONE;
}

/* --- Pauses: where they are ---------------------------------------------------------------------------- */

#define PERIOD_MIN 3u /* closer ones are a pace, not pauses */
/* a pause that comes by time, not by steps, may be one step off when they are that far apart */
#define SLACK_FROM 20u

static bool fits_chain(const struct pause_chain *c, uint64_t step) {
        uint64_t slack = c->period >= SLACK_FROM, off;

        if (c->period == 0)
                return false;
        off = (step > c->step ? step - c->step : c->step - step) % c->period; /* a restart goes back */
        return off <= slack || c->period - off <= slack;
}

static void meet(struct pause_chain *c, uint64_t step, usec_t length) {
        c->step = step;
        c->longest = MAX(c->longest, length);
}

void pauses_told(struct pauses *p, enum pause_kind kind, usec_t length) {
        p->longest[kind] = MAX(p->longest[kind], length);
}

void pauses_take(struct pauses *p, uint64_t step, usec_t length) {
        struct pause_chain *once = NULL, *c;

        for (uint32_t i = 0; i < p->n; i++) {
                c = &p->chains[i];
                if (fits_chain(c, step)) {
                        meet(c, step, length);
                        return;
                }
                if (c->period == 0 && c->step < step && (!once || c->step > once->step))
                        once = c;
        }
        if (once) {
                once->period = step - once->step >= PERIOD_MIN ? step - once->step : 0;
                meet(once, step, length);
                return;
        }
        c = p->n < PAUSE_CHAINS ? &p->chains[p->n++] : &p->chains[p->next++ % PAUSE_CHAINS];
        *c = (struct pause_chain){ .step = step, .longest = length };
}

usec_t pauses_expected(const struct pauses *p, uint64_t step) {
        usec_t longest = 0;

        for (uint32_t i = 0; i < p->n; i++)
                if (fits_chain(&p->chains[i], step))
                        longest = MAX(longest, p->chains[i].longest);
        return longest;
}
