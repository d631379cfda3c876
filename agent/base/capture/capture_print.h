/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A capture's stacks as text for people: processes, their threads, innermost frame first; what the cores do
 * is not in it. */
#include "host_capture.h"

/* *ret is malloc'ed, max bytes at most, and says so where it was cut. -ENOMEM. */
int capture_print(const struct host_capture *c, const struct stack_table *t, size_t max, char **ret);
