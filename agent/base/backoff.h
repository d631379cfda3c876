/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* When to try again. Pure: chance is an argument, which backoff_random() draws. */
#include <sys/random.h>

#include "base.h"

#define BACKOFF_BASE (500 * USEC_PER_MSEC)
#define BACKOFF_MAX (30 * USEC_PER_SEC)
#define BACKOFF_PARKED (60 * USEC_PER_SEC) /* DESIGN, Wire: a parked endpoint gets one try a minute */

/*
 * Full jitter: anything from 0 to min(BACKOFF_MAX, BACKOFF_BASE * 2^failures); failures counts from 0.
 * random: 64 random bits.
 */
static inline usec_t backoff_next(unsigned failures, uint64_t random) {
        usec_t max = BACKOFF_BASE;

        for (; failures > 0 && max < BACKOFF_MAX; failures--)
                max *= 2;
        return random % (MIN(max, BACKOFF_MAX) + 1);
}

/* Without entropy yet it is 0, a valid draw, too: at once. */
static inline uint64_t backoff_random(void) {
        uint64_t v = 0;

        (void) getrandom(&v, sizeof(v), GRND_NONBLOCK);
        return v;
}
