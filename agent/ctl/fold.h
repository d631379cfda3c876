/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One screen: findings that are OK and alike share a line. Pure.
 *
 * Alike are those of one check that found the same, or that each found just what was wanted (nine sysctls).
 * The line stands where the first of them stood. What is not OK always has its line and its remedy.
 */
#include "finding.h"

/* Adds to *ret (empty before): -ENOMEM, -E2BIG. */
int fold_findings(const struct finding_list *l, struct finding_list *ret);
