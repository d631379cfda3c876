/* SPDX-License-Identifier: Apache-2.0 */
#include "run_samples.h"

#include <math.h>

#include "part.h"

void run_sample_time(struct sink *s, const char *run, const struct goodput *g) {
        for (enum goodput_cause c = 0; g->mark > 0 && c < _GOODPUT_MAX; c++)
                put_double(s, METRIC_RUN_TIME, (double) g->spent[c] / USEC_PER_SEC, run,
                           goodput_cause_name(c), NULL);
}

static void put_known(struct sink *s, enum metric_id id, double value, const char *run) {
        if (isfinite(value)) /* else the line did not say */
                put_double(s, id, value, run, NULL, NULL);
}

void run_sample_step(struct sink *s, const char *run, const struct step_line *step) {
        if (!step)
                return;
        put_uint(s, METRIC_RUN_STEP, step->step, run, NULL, NULL);
        put_known(s, METRIC_RUN_TOKENS, step->tokens_per_second, run);
        put_known(s, METRIC_RUN_TFLOPS, step->tflops, run);
        put_known(s, METRIC_RUN_LOSS, step->loss, run);
}

void run_sample_durations(struct sink *s, const char *run, const struct step_times *t) {
        const struct sample_histogram h = { .count = t->n,
                                            .sum = t->sum,
                                            .min = t->n > 0 ? t->min : NAN,
                                            .max = t->n > 0 ? t->max : NAN,
                                            .bounds = step_times_bounds,
                                            .counts = t->counts,
                                            .n_bounds = STEP_TIMES_BOUNDS };

        if (t->n > 0)
                put_histogram(s, METRIC_RUN_STEP_DURATION, &h, run, NULL);
}

void run_sample_checkpoint(struct sink *s, const char *run, const struct checkpoint *c, int64_t steps_since,
                           usec_t now_real) {
        usec_t age = now_real - MIN(now_real, c->at_real);

        if (c->at_real > 0)
                put_double(s, METRIC_RUN_CHECKPOINT_AGE, (double) age / USEC_PER_SEC, run, NULL, NULL);
        if (steps_since >= 0)
                put_int(s, METRIC_RUN_CHECKPOINT_STEPS, steps_since, run, NULL, NULL);
}
