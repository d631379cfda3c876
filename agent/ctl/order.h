/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What people ordered for this host, for verbs that must mind it. */
#include <jansson.h>

#include "clock.h"
#include "problem.h"

/* -EACCES with problem when this host is cordoned or draining; 0 when not, or nobody answers. */
int order_refuses_run(const char *root, struct problem *problem);

/* "2h", "30min", "3d" from now, or the time itself, as a time. -EINVAL. */
int order_until_text(const char *given, char buf[static CLOCK_TEXT_MAX]);
