/* SPDX-License-Identifier: Apache-2.0 */
#include "step_times.h"

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
