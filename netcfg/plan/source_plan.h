/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Source routing (source.h) as a part of a plan: from what is ours and what is wanted to writes and
 * verdicts. Pure. */
#include "op.h"

/* Appends the removal of all that are ours, source saying why. -ENOMEM. */
int source_add_removal(struct plan *p, const struct plan *own, const char *source);

/* A plan's part about source routing. Findings "route.source", one for each NIC. */
int plan_add_source(struct plan *p, const struct intent *i, const struct found *f);
int plan_judge_source(const struct intent *i, const struct found *f, struct finding_list *l);
