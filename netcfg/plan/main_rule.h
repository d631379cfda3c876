/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The rules that the kernel itself made, "lookup main" and "lookup default". Where none leads to the main
 * table any more (ip rule flush), nothing that this host sends finds a route, and they are put back. They
 * come after all others, so that no one's rule is overruled. Pure.
 */
#include "op.h"

#define MAIN_RULE_PRIORITY 32766
#define DEFAULT_RULE_PRIORITY 32767
/* Whether a rule leads all that is sent to the main table. */
bool rules_lead_to_main(const struct rule_table *rules, int family);
int plan_add_main_rules(struct plan *p, const struct intent *i, const struct found *f);
/* Findings "route.rules" where they are missing. */
int plan_judge_main_rules(const struct intent *i, const struct found *f, struct finding_list *l);
