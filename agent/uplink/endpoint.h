/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside of the uplink: where records go. One endpoint is a base URL, the URL of each class below it, and
 * the addresses of its host; a route is how one class fares with it.
 *
 * The endpoints stand in order of preference. One that fails waits and is tried again; after ROUTE_FAILURES
 * failures in a row, or when it asks for a wait longer than ROUTE_PATIENCE, or when it is parked, the next
 * one in the list is used instead, and it is passed over for a while: ROUTE_AVOID, twice that after
 * each further failure, up to ROUTE_AVOID_MAX; a parked one as long as it is parked. Then it gets the next
 * request: when that succeeds, it is the preferred one again. When all are passed over, the one
 * whose wait ends first is tried, so that more endpoints never mean later tries.
 */
#include "base.h"
#include "exchange.h"
#include "uplink.h"

struct endpoint {
        char *base; /* without the last '/' */
        bool https;
        struct exchange *exchanges[_UPLINK_CLASS_MAX]; /* those behind the first share its connections */
        char dns_error[160]; /* its name could not be looked up; empty: it could */
};

/* o: what all of them have alike; done has each class's own userdata. -EINVAL: no URL, or it holds a
 * password. */
int endpoint_init(struct endpoint *p, sd_event *e, const char *base, struct exchange_options o,
                  void *const userdata[static _UPLINK_CLASS_MAX]);
void endpoint_clear(struct endpoint *p);
const char *endpoint_path(enum uplink_class c); /* "/v1/metrics", "/v1/logs" */

/* Routes are pure: time (boot clock) and waits are arguments. */
#define ROUTE_FAILURES 2
#define ROUTE_PATIENCE (10 * USEC_PER_SEC)
#define ROUTE_AVOID (30 * USEC_PER_SEC)
#define ROUTE_AVOID_MAX (300 * USEC_PER_SEC)
void route_worked(struct uplink_route *r);
/* No decision about what was sent: again after wait. */
void route_failed(struct uplink_route *r, usec_t now, usec_t wait, const char *why);
/* It will not take anything before a person has acted. */
void route_park(struct uplink_route *r, usec_t now, usec_t wait, const char *why);
/* The index of the route to use now; -1: none yet, *ret_at is when to ask again. n is at least 1. */
int route_pick(const struct uplink_route *routes, size_t n, usec_t now, usec_t *ret_at);
