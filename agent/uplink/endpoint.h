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
#include "lookup.h"
#include "uplink.h"

struct endpoint {
        struct uplink *uplink;
        char *base;                    /* without the last '/' */
        char *urls[_UPLINK_CLASS_MAX];
        bool https;
        struct lookup *lookup;     /* NULL: the URL (or the proxy's) has an address */
        char dns_error[160];           /* the last look-up failed; empty: it did not */
};

/* proxy: its URL, or NULL: then its name is the one to look up. -EINVAL: no URL, or it holds a password. */
int endpoint_init(struct endpoint *p, sd_event *e, const char *base, const char *proxy,
                  void (*resolved)(const char *error, void *userdata));
void endpoint_clear(struct endpoint *p);
/* For CURLOPT_RESOLVE. 1: go on with *ret (NULL: none is needed); 0: a look-up is at work; -errno. */
int endpoint_addresses(struct endpoint *p, const char **ret);
/* Asks again, in the background, unless what is known is younger than least. */
void endpoint_refresh(struct endpoint *p, usec_t now, usec_t least);

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
