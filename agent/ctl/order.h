/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What people ordered for this host, for verbs that must mind it. */
#include <jansson.h>

#include "clock.h"
#include "problem.h"

/* The order of a GET /v1/status that runs must not start under; NULL: none. Borrowed. word: "cordoned",
 * "draining". */
const json_t *order_against_runs(const json_t *status, const char **ret_word);
/* -EACCES with problem when this host is cordoned or draining; 0 when not, or nobody answers. */
int order_refuses_run(const char *root, struct problem *problem);

/* "2h", "30min", "3d" from now, or the time itself, as a time. -EINVAL. */
int order_until_text(const char *given, char buf[static CLOCK_TEXT_MAX]);
