/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which series have ended: those of which nothing came for a minute, and for three times as long as usually
 * lies between two pushes of their host. In memory: what ended while the program was away is not marked.
 * Pure.
 */
#include "store_handover.h"

#define STALE_AFTER (60 * USEC_PER_SEC)

struct stale_host;
struct stale { /* hosts, by number */
        struct stale_host *hosts;
        size_t n, size;
};
void stale_clear(struct stale *t);
/* The points of h, which is sorted, were handed on. -ENOMEM. */
int stale_learn(struct stale *t, const struct handover *h, usec_t now);
/* Puts the marker of each series that has ended into h, behind its last point, and forgets it. -ENOMEM. */
int stale_take(struct stale *t, usec_t now, size_t max, struct handover *h);
