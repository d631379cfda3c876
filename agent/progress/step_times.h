/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* How long steps took, as a histogram that only grows: pauses between steps are in it, as the steps behind them. Pure. */
#include "base.h"

#define STEP_TIMES_BOUNDS 18u
/* Seconds, rising. */
extern const double step_times_bounds[STEP_TIMES_BOUNDS];

struct step_times {
        uint64_t counts[STEP_TIMES_BOUNDS + 1]; /* each up to its bound; the last one above all */
        uint64_t n;
        double sum, min, max; /* seconds; min and max while n > 0 */
};

/* steps of them took interval together: each its part. Nothing for 0 steps. */
void step_times_add(struct step_times *t, usec_t interval, uint64_t steps);
