/* SPDX-License-Identifier: Apache-2.0 */
#include "goodput.h"

#include <math.h>

const char *goodput_cause_name(enum goodput_cause c) {
        static const char *const names[] = {
                [GOODPUT_STEP] = "step",
                [GOODPUT_START] = "start",
                [GOODPUT_COMPILE] = "compile",
                [GOODPUT_CHECKPOINT] = "checkpoint",
                [GOODPUT_EVALUATION] = "evaluation",
                [GOODPUT_PAUSE] = "pause",
                [GOODPUT_STALL] = "stall",
                [GOODPUT_RESTART] = "restart",
        };

        return names[c];
}

enum goodput_cause goodput_cause_of(enum pause_kind k) {
        static const enum goodput_cause causes[] = {
                [PAUSE_NONE] = GOODPUT_STALL,
                [PAUSE_COMPILE] = GOODPUT_COMPILE,
                [PAUSE_CHECKPOINT] = GOODPUT_CHECKPOINT,
                [PAUSE_EVALUATION] = GOODPUT_EVALUATION,
        };

        return causes[k];
}

/* Up to now; the caller says into what it goes. */
static usec_t take_span(struct goodput *g, usec_t now) {
        usec_t span = now > g->mark ? now - g->mark : 0;

        g->mark = MAX(now, g->mark);
        return span;
}

void goodput_begin(struct goodput *g, usec_t from, bool again) {
        if (g->mark > 0)
                g->spent[GOODPUT_RESTART] += take_span(g, from);
        else
                g->mark = from;
        g->counted = 0;
        g->starting = true;
        g->again = again;
}

void goodput_join(struct goodput *g, usec_t now) {
        g->mark = now;
        g->counted = 0;
        g->starting = false;
}

static enum goodput_cause of_start(const struct goodput *g) {
        return g->again ? GOODPUT_RESTART : GOODPUT_START;
}

/* What is left of a step's usual time is a step's; the rest is lost. */
static void part_span(struct goodput *g, usec_t span, usec_t usual, enum goodput_cause cause) {
        usec_t left = usual > g->counted ? usual - g->counted : 0, step = MIN(span, left);

        g->spent[GOODPUT_STEP] += step;
        g->spent[cause] += span - step;
        g->counted += step;
}

void goodput_step(struct goodput *g, uint64_t step, usec_t now, usec_t usual, usec_t first,
                  enum goodput_cause cause) {
        usec_t span;

        if (g->mark == 0)
                return;
        span = take_span(g, now);
        if (g->starting) {
                usec_t compiled = MIN(first, span);

                g->spent[of_start(g)] += span - compiled;
                g->spent[GOODPUT_COMPILE] += compiled;
        } else if (step < g->best)
                g->spent[GOODPUT_RESTART] += span; /* made before, and again now */
        else
                part_span(g, span, usual > 0 ? usual : g->counted + span, cause);
        g->starting = false;
        g->counted = 0;
        g->best = MAX(g->best, step);
}

void goodput_lose(struct goodput *g, usec_t now, usec_t usual, enum goodput_cause cause) {
        if (g->mark > 0 && !g->starting)
                part_span(g, take_span(g, now), usual, cause);
}

void goodput_end(struct goodput *g, usec_t now, enum goodput_cause cause) {
        if (g->mark == 0)
                return;
        g->spent[g->starting ? of_start(g) : cause] += take_span(g, now);
        g->counted = 0;
}

usec_t goodput_total(const struct goodput *g) {
        usec_t total = 0;

        for (enum goodput_cause c = 0; c < _GOODPUT_MAX; c++)
                total += g->spent[c];
        return total;
}

double goodput_share(const struct goodput *g) {
        usec_t total = goodput_total(g);

        return total > 0 ? (double) g->spent[GOODPUT_STEP] / (double) total : NAN;
}
