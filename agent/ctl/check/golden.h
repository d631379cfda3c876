/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * This host against a good one: what 'tpuctl check --json' said there. Compared by check and subject: the
 * verdict, and what was found unless it is a measurement of the moment (struct probe, varies).
 */
#include "finding.h"

/* Reads and parses a saved report. Adds its checks to ret; -errno with why. */
#define GOLDEN_WHY_MAX 192
int golden_load(const char *path, struct finding_list *ret, char why[static GOLDEN_WHY_MAX]);

/*
 * Differences as findings: found is here, wanted is there. OK here and worse there is no difference to
 * complain of: OK with the note. what is worse here keeps its verdict, any other difference is WARN. only:
 * as for the report. -ENOMEM, -E2BIG.
 */
int golden_compare(const struct finding_list *golden, const struct finding_list *here, const char *only,
                   struct finding_list *ret);
