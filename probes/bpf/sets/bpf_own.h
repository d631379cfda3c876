/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once
/*
 * What a BPF program must know of the host that it counts for: one kernel may carry several of them, each in
 * namespaces of its own. A program says `const volatile struct bpf_own own = { 0 };`, the loader fills it
 * in.
 */
struct bpf_own {
        unsigned int netns, pidns; /* inode numbers of /proc/self/ns/net and pid */
        /* id (the inode number) of the root of our cgroup2 tree; 0: there is none */
        unsigned long long cgroup;
};
