/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A control group for a run that no systemd runs, where it is to have a limit of memory: cgroup v2 alone,
 * and only where we may make one (a container with its own writable tree, as docker's --cgroupns=private
 * with rw mount, or a machine's own init). It is tpu-run-NAME, below our own group, or beside it: of v2's
 * groups none both holds processes and divides memory (Linux, Documentation/admin-guide/cgroup-v2.rst, "No
 * Internal Process Constraint").
 */
#include "host.h"
#include "run_spec.h"

#define GROUP_WHY_MAX 160

/* Whether the run has a limit that needs a group. */
bool direct_group_is_needed(const struct run_spec *s);
/* Makes it, with its limits. -EOPNOTSUPP with why, in words. */
int direct_group_make(const struct host *h, const char *name, const struct run_spec *s,
                      char why[static GROUP_WHY_MAX]);
/* The calling process goes into it: before it becomes the run. */
int direct_group_enter(const struct host *h, const char *name);
/* When the run has ended: takes the group away, and says how many of its processes the kernel killed for
 * lack of memory. */
uint32_t direct_group_end(const struct host *h, const char *name);
