/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once
/* A task's number in the agent's pid namespace, and its control group of version 2. Inline in each BPF
 * program. */
#include "task_kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define PID_LEVELS 8     /* pid namespaces inside each other that are looked at; the kernel allows 32 */
#define GROUP_LEVELS 16
#define GROUPS_BELOW 6 /* of a run, that are looked at */

/* The process of task, as the pid namespace with that inode numbers it; 0: it has no number there. */
static __always_inline int number_in(struct task_struct *task, unsigned int namespace) {
        struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
        unsigned int level = pid ? BPF_CORE_READ(pid, level) : 0;

        for (unsigned int i = 0; pid && i < PID_LEVELS && i <= level; i++) {
                struct upid number = { 0 };
                char *at = (char *) pid + bpf_core_field_offset(pid->numbers) +
                           i * bpf_core_type_size(struct upid);

                if (bpf_probe_read_kernel(&number.nr, sizeof(number.nr),
                                          at + bpf_core_field_offset(number.nr)) < 0 ||
                    bpf_probe_read_kernel(&number.ns, sizeof(number.ns),
                                          at + bpf_core_field_offset(number.ns)) < 0)
                        return 0;
                if (BPF_CORE_READ(number.ns, ns.inum) == namespace)
                        return number.nr;
        }
        return 0;
}

static __always_inline struct kernfs_node *group_of(struct task_struct *task) {
        return BPF_CORE_READ(task, cgroups, dfl_cgrp, kn);
}

static __always_inline struct kernfs_node *group_above(struct kernfs_node *node) {
        struct kernfs_node___since_615 *newer = (void *) node;

        if (bpf_core_field_exists(newer->__parent))
                return BPF_CORE_READ(newer, __parent);
        return BPF_CORE_READ(node, parent);
}

/* Whether it is the control group of that inode, or not far below it. */
static __always_inline bool is_at_or_below(struct kernfs_node *node, __u64 group) {
        for (int i = 0; node && i < GROUPS_BELOW; i++) {
                if (BPF_CORE_READ(node, id) == group)
                        return true;
                node = group_above(node);
        }
        return false;
}

static __always_inline bool is_below(struct task_struct *task, __u64 group) {
        return is_at_or_below(group_of(task), group);
}

/* Whether its name begins as a run's does. */
static __always_inline bool is_run_group(struct kernfs_node *node) {
        char start[8];
        const char *name = BPF_CORE_READ(node, name);

        if (bpf_probe_read_kernel(start, sizeof(start), name) < 0)
                return false;
        return start[0] == 't' && start[1] == 'p' && start[2] == 'u' && start[3] == '-' && start[4] == 'r' &&
               start[5] == 'u' && start[6] == 'n' && start[7] == '-';
}
