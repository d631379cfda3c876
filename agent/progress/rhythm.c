/* SPDX-License-Identifier: Apache-2.0 */
#include "rhythm.h"

void rhythm_clear(struct rhythm *r) {
        r->n = r->next = 0;
}

/* The first place of the sorted ones whose value is not below v; n when there is none. */
static uint32_t place_of(const struct rhythm *r, usec_t v) {
        uint32_t low = 0, high = r->n;

        while (low < high) {
                uint32_t middle = (low + high) / 2;

                if (r->sorted[middle] < v)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static void forget(struct rhythm *r, usec_t v) {
        uint32_t at = place_of(r, v);

        r->n--;
        memmove(&r->sorted[at], &r->sorted[at + 1], (r->n - at) * sizeof(r->sorted[0]));
}

void rhythm_add(struct rhythm *r, usec_t interval) {
        uint32_t at;

        if (r->n == RHYTHM_KEPT)
                forget(r, r->last[r->next]);
        at = place_of(r, interval);
        memmove(&r->sorted[at + 1], &r->sorted[at], (r->n - at) * sizeof(r->sorted[0]));
        r->sorted[at] = interval;
        r->last[r->next] = interval;
        r->next = (r->next + 1) % RHYTHM_KEPT;
        r->n++;
}

usec_t rhythm_quantile(const struct rhythm *r, unsigned percent) {
        uint32_t rank = (r->n * MIN(percent, 100u) + 99) / 100; /* how many do not exceed it, at least */

        return r->n == 0 ? 0 : r->sorted[rank > 0 ? rank - 1 : 0];
}

usec_t rhythm_median(const struct rhythm *r) {
        return rhythm_quantile(r, 50);
}
