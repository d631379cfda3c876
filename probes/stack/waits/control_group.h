/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Whether the control group of a process holds it back: frozen, or without CPU or memory (cgroup v2, and the
 * freezer of v1). */
#include "host.h"
#include "process.h"

#define CONTROL_GROUP_MAX 512u

struct control_group {
        char name[CONTROL_GROUP_MAX]; /* "/run.slice/x.service"; "" where it is not known */
        bool frozen;
        char why[96]; /* "cpu.max: 97 % of the last 10 s"; "": it is not held back */
};

void control_group_read(const struct host *h, const struct process *p, struct control_group *ret);

/* Whether a thread that waits in this kernel function is frozen, or waits for memory of its group. */
bool control_group_freezes(const char *wchan);
bool control_group_reclaims(const char *wchan);
