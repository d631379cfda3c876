/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Source routing: with several data-centre NICs, what is sent from an address of one of them leaves by that
 * NIC (Google Cloud VPC docs, "Configure routing for an additional network interface"). Per family, and only
 * where two such NICs or more have global addresses:
 *
 *   rule    28470: from ADDRESS lookup TABLE      one for each global address
 *   TABLE   847000000 + index of the NIC          above what others number by hand, and unique by itself
 *           DST via GATEWAY onlink metric 1024  what the main table sends out by this NIC only, the
 *                                                 default route too, with the metrics it has there
 *           throw DST                             what the main table sends elsewhere than to a data-centre
 *                                                 NIC (docker's bridge, a tunnel, blackhole): the default
 *                                                 route of TABLE must not take it
 *
 * What TABLE does not know goes on to the main table. Rules and routes of ours carry the protocol number
 * 147 (none of linux/rtnetlink.h), and no others are ever changed. An address for which someone else has a
 * rule is left to him.
 *
 * Where the main table has no default route by the NIC, and its address is a /32, the one host route that is
 * there by the NIC names the gateway, as DHCP sets it on Google Cloud.
 *
 * Order of writes, so that one may stop after any: a rule goes before the routes of its table, and comes
 * after them; throws come before the default route, and go after it.
 */
#include "addresses.h"
#include "op.h"

#define SOURCE_TABLE_BASE 847000000U /* + ifindex, which is below 2^31: fits 32 bits */
#define SOURCE_PRIORITY 28470
#define SOURCE_METRIC 1024
#define SOURCE_PROTOCOL 147
#define SOURCE_ABSENT "absent"
/* Rules and routes of ours altogether; where more would be needed, none is made, and none stays. */
#define SOURCE_MAX 2048
/* Else ours alone could be more than are read, and could not be taken away any more. */
_Static_assert(ROUTES_MAX >= 3 * SOURCE_MAX && RULES_MAX > SOURCE_MAX, "ours are read with those of others");

bool source_is_own_route(const struct route *r);
bool source_is_own_rule(const struct rule *r);
/* A route, not of source routing's own tables, all of whose next hops are data-centre NICs. */
bool source_is_data_route(const struct intent *i, const struct link_table *links, const struct route *r);

/* Subjects and values of an op. A rule is "from 10.0.1.5 lookup 847000003" with "priority 28470"; a route is
 * "table 847000003 10.0.1.0/24" with "via 10.0.1.1 onlink mtu 1400,lock", "link" or "throw". */
void source_rule_subject(const struct rule *r, char buf[static 64]);
void source_route_subject(const struct route *r, char buf[static 64]);
void source_route_value(const struct route *r, char buf[static 96]);

/* Those of the machine that are ours, as ops whose value is in .to. -ENOMEM. */
int source_found(const struct rule_table *rules, const struct route_table *routes,
                 const struct link_table *links, struct plan *ret);
/* The same of those that are wanted, in the order in which they are written; empty while it is not known.
 * -ENOMEM; -E2BIG: more than SOURCE_MAX. */
int source_wanted(const struct intent *i, const struct found *f, struct plan *ret);
/* Whether two data-centre NICs or more have addresses of the family. */
bool source_is_due(const struct intent *i, const struct found *f, int family);
/* Someone else's rule for what comes from the address, or NULL. */
const struct rule *source_foreign_rule(const struct found *f, const struct address *a);
/* 0, or the -errno of reading something that is needed: nothing is then planned. */
int source_error(const struct found *f);

/* --- As a part of a plan: source_plan.c -------------------------------------------------------------- */

/* Appends the removal of all that are ours, source saying why. -ENOMEM. */
int source_add_removal(struct plan *p, const struct plan *own, const char *source);

/* A plan's part about source routing. Findings "route.source", one for each NIC. */
int plan_add_source(struct plan *p, const struct intent *i, const struct found *f);
int plan_judge_source(const struct intent *i, const struct found *f, struct finding_list *l);
