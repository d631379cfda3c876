/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The processes of a control group and of all below it, in each of the layouts that systemd makes: unified,
 * hybrid, legacy.
 */
#include <sys/types.h>

#include "host.h"

#define CGROUP_PIDS_MAX 4096 /* of one run */
#define CGROUP_DEPTH_MAX 16

struct pid_list {
        pid_t pids[CGROUP_PIDS_MAX];
        size_t n;
};

/* control_group: as systemd names it ("/tpu.slice/…"). What is beyond the bounds is left out. -ENOENT
 * when it is gone. */
int cgroup_pids(const struct host *h, const char *control_group, struct pid_list *ret);

/* How many processes of the run's slice that we are in (the recorder's case) the kernel killed for lack of
 * memory: counted by memory.events, or memory.oom_control of the legacy layout. 0 when it is not known. */
uint32_t cgroup_oom_kills(const struct host *h);
