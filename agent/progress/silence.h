/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether a run whose log tells no steps has gone silent. No single sign says so: its log, the network and its CPU must, and
 * where it is known how long the TPU has been idle, that, too; and all of them for SILENCE_SPAN, after the run was busy for
 * long enough to know what that is (SILENCE_WINDOWS windows of readings, with traffic on the network). A CPU is silent when
 * it falls to almost nothing, or to another height than it had and stays there: a loop that spins. Pure.
 */
#include "activity.h"

#define SILENCE_SPAN (60 * USEC_PER_SEC)
#define SILENCE_LOG (30 * USEC_PER_SEC)
#define SILENCE_WINDOWS 12u

struct silence {
        usec_t since;     /* all signs say so since then; 0: they do not */
        double low, high; /* cores of the windows since then */
};

/*
 * One window of readings, that ended at now; line_at: the last line of the log (0: none); idle: seconds that the TPU did
 * nothing (negative: not known). Returns whether it was silent.
 */
bool silence_take(struct silence *s, const struct activity *a, const struct activity_rate *window, usec_t began, usec_t now,
                  usec_t line_at, double idle);
/* When it is to be believed; USEC_INFINITY: it is not silent. */
usec_t silence_due(const struct silence *s);
