/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which of several endpoints one class is sent to, and when. Pure: time (boot clock) and waits are
 * arguments.
 *
 * The endpoints stand in order of preference. One that fails waits and is tried again; after ROUTE_FAILURES
 * failures in a row, or when it asks for a wait longer than ROUTE_PATIENCE, or when it is parked, the next
 * one in the list is used instead, and it is passed over for a while: ROUTE_AVOID, twice that after
 * each further failure, up to ROUTE_AVOID_MAX; a parked one as long as it is parked. Then it gets the next
 * request: when that succeeds, it is the preferred one again. When all are passed over, the one
 * whose wait ends first is tried, so that more endpoints never mean later tries.
 */
#include "base.h"

#define ROUTE_FAILURES 2
#define ROUTE_PATIENCE (10 * USEC_PER_SEC)
#define ROUTE_AVOID (30 * USEC_PER_SEC)
#define ROUTE_AVOID_MAX (300 * USEC_PER_SEC)

struct route {
        unsigned failures; /* in a row */
        bool parked;
        usec_t retry_at;    /* not before; 0: at once */
        usec_t avoid_until; /* passed over while another will do */
        char why[160];      /* what failed last; empty while it works */
};

void route_worked(struct route *r);
/* No decision about what was sent: again after wait. */
void route_failed(struct route *r, usec_t now, usec_t wait, const char *why);
/* It will not take anything before a person has acted. */
void route_park(struct route *r, usec_t now, usec_t wait, const char *why);
/* The index of the route to use now; -1: none yet, *ret_at is when to ask again. n is at least 1. */
int route_pick(const struct route *routes, size_t n, usec_t now, usec_t *ret_at);
