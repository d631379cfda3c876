/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Routes and rules that are not ours and change where the run's traffic goes. That is what is sent to the
 * subnet of a data-centre NIC, and what is sent from its addresses to other networks. Whether one does is
 * looked up as the kernel does it (lookup.h). What ends alike is no alarm. Neither is what only marked
 * packets meet, nor a host route to a device of this host, which a container's is. Pure.
 */
#include "op.h"

/* The findings of all below. -ENOMEM. */
int plan_judge_others(const struct intent *i, const struct found *f, struct finding_list *l);

/* Findings "route.foreign": one for each that does, naming who made it and what takes it away; else one. */
int plan_judge_foreign(const struct intent *i, const struct found *f, struct finding_list *l);
/* Findings "route.mtu": one for each route by a data-centre NIC that carries less than the NIC; else one. */
int plan_judge_route_mtus(const struct intent *i, const struct found *f, struct finding_list *l);

/*
 * The rules that the kernel itself made, "lookup main" and "lookup default": where none leads to the main
 * table any more (ip rule flush), nothing of this host finds a way out, and they are put back. They come
 * after all others, so that no one's rule is overruled. Finding "route.rules" where they are missing.
 */
#define MAIN_RULE_PRIORITY 32766
#define DEFAULT_RULE_PRIORITY 32767
/* Whether a rule leads all that is sent to the main table. */
bool rules_lead_to_main(const struct rule_table *rules, int family);
int plan_add_main_rules(struct plan *p, const struct intent *i, const struct found *f);
int plan_judge_main_rules(const struct intent *i, const struct found *f, struct finding_list *l);
