/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which processes are read: those named, those of a control group and of the groups below it, and what they
 * started. Each once, in the order they were found.
 */
#include "process.h"

#define TARGETS_MAX 4096u
#define TARGET_GROUPS_MAX 1024u /* groups below one, and how long their paths may be */
#define TARGET_PATH_MAX 2048u

struct targets {
        pid_t *pids;
        size_t n;
        bool full; /* there are more than TARGETS_MAX: the others are left out */
};

void targets_clear(struct targets *t);

/* -ENOMEM. What does not fit sets full. */
int targets_add(struct targets *t, pid_t pid);

/*
 * Adds the processes of a control group: a directory below /sys/fs/cgroup, or its name as /proc/PID/cgroup
 * shows it
 * ("/system.slice/x.service"), then looked for in the unified hierarchy and systemd's. -ENOENT: there is no
 * such group; else -errno.
 */
int targets_add_cgroup(struct targets *t, const struct host *h, const char *group);

/* Adds the descendants of every process in the list. */
int targets_add_children(struct targets *t, const struct host *h);
