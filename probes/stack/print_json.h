/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The JSON of print.h (docs/stack.md). Each adds one object to o->processes. -ENOMEM. */
#include "print.h"

int json_capture(struct output *o, const struct capture *c);
int json_failure(struct output *o, pid_t pid, const char *command, const char *why);
