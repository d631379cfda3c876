/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part of a plan about the settings of NICs (nic_setting.h). Pure.
 */
#include "found.h"
#include "op.h"

/* Appends what is due. -ENOMEM. */
int plan_add_nic_settings(struct plan *p, const struct intent *i, const struct found *f);
int plan_judge_nic_settings(const struct intent *i, const struct found *f, struct finding_list *l);
