/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether a NIC's gateway answers, asked by the kernel itself: a neighbour probe over netlink, no packet of
 * ours. For the NIC that carries the only default route, whose host must never be cut off.
 */
#include "clock.h"
#include "links.h"
#include "routes.h"

#define GATEWAY_WAIT (2 * USEC_PER_SEC)
#define GATEWAY_PAUSE (20 * USEC_PER_SEC) /* shorter than the daemon's 30 s: each reading anew asks again */

/* The gateway of the default route that goes out by this NIC, when no other NIC carries one of that family;
 * IPv4 first. NULL: there is none, and nothing to be cut off from. */
const struct route *gateway_of(const struct route_table *t, int index);

/* Has the kernel ask each gateway of a default route that it has not heard for a while, and waits for
 * nothing: whoever looks at its neighbours then finds who is silent, though this host sent nothing. */
void gateways_keep_asked(const struct host *h);

/* Waits at most for wait until the gateway of r is REACHABLE. 0, -EHOSTUNREACH when it is not, or -errno. */
int gateway_probe(const struct clock *clock, const struct route *r, usec_t wait);
