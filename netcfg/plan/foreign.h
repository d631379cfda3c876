/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Routes and rules that are not ours and change where the run's traffic goes. That is what is sent to the
 * subnet of a data-centre NIC, and what is sent from its addresses to other networks. Whether one does is
 * looked up as the kernel does it (lookup.h). Of an address without a subnet, the longest route that covers
 * the address itself counts. What ends alike is no alarm. Neither is what only marked
 * packets meet, nor a host route to a device of this host, which a container's is. Pure.
 */
#include "op.h"

/* The findings of all below but of qdiscs, which are the NICs'. -ENOMEM. */
int plan_judge_others(const struct intent *i, const struct found *f, struct finding_list *l);

/* Findings "route.foreign": one for each that does, naming who made it and what takes it away; else one. */
int plan_judge_foreign(const struct intent *i, const struct found *f, struct finding_list *l);
/* Findings "route.mtu": one for each route by a data-centre NIC that carries less than the NIC, or is slow
 * (route_is_slow()); else one, which names what else routes carry that is not ours. */
int plan_judge_route_mtus(const struct intent *i, const struct found *f, struct finding_list *l);

/* Findings "nic.qdisc": one for each NIC, and for each discipline that limits what it sends. Of f only links
 * and qdiscs count. */
int plan_judge_qdiscs(const struct intent *i, const struct found *f, struct finding_list *l);
