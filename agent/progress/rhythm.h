/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How long a run's steps take, learned from the run itself: the last intervals between two signs of progress. Robust:
 * half of them may be pauses without moving the median. Pure, of fixed size, nothing is allocated.
 */
#include "base.h"

#define RHYTHM_KEPT 64u /* intervals; a pace that changed for good is believed after four, see suspicion.c */

struct rhythm {
        usec_t last[RHYTHM_KEPT];   /* as they came; next is where the following one goes */
        usec_t sorted[RHYTHM_KEPT]; /* the same, shortest first */
        uint32_t n, next;
};

void rhythm_clear(struct rhythm *r);
/* The oldest interval is forgotten when all places are taken. */
void rhythm_add(struct rhythm *r, usec_t interval);
/* 0 while there is none. */
usec_t rhythm_median(const struct rhythm *r);
/* The shortest interval that at least percent (0 to 100) of all do not exceed; 0 while there is none. */
usec_t rhythm_quantile(const struct rhythm *r, unsigned percent);
