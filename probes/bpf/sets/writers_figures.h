/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once
/*
 * Who changed a setting of the network last, as writers.bpf.c keeps it, for both sides. Included behind
 * vmlinux.h or <linux/types.h>. Each kind has a ring of its own: a flood of routes hides no writer of a
 * sysctl. A record is being written while its time is 0, and may be written again while it is read: who
 * reads copies it, and compares the time before and behind.
 */
#define WRITERS_KEPT 32 /* of each kind; a power of 2 */
#define WRITER_NAME_MAX 40
#define WRITER_GROUP_MAX 80
#define WRITER_COMMAND_MAX 96

enum writer_kind {
        WRITER_SYSCTL,  /* a file below /proc/sys was written: name and folder */
        WRITER_LINK,    /* a link was set by rtnetlink: index; or by ioctl(2): name */
        WRITER_ROUTE,   /* a route was added or taken away */
        WRITER_RULE,    /* a rule was added or taken away */
        WRITER_FEATURE, /* ethtool's settings, by ioctl(2) */
        WRITER_KINDS,
};

struct writer_record {
        __u64 at;          /* nanoseconds of the boot clock */
        __s32 pid, parent; /* in the agent's pid namespace; 0: it lives outside */
        __s32 index;       /* of the link; 0: not said */
        __u32 reserved;
        char name[WRITER_NAME_MAX], folder[WRITER_NAME_MAX]; /* "tcp_rmem" of "ipv4"; "eth1" */
        char comm[16];
        char group[WRITER_GROUP_MAX];     /* the last part of its control group */
        char command[WRITER_COMMAND_MAX]; /* its arguments, with a NUL behind each; empty: not read */
};

struct writers_figures {
        __u32 next[WRITER_KINDS];
        __u32 reserved;
        struct writer_record kept[WRITER_KINDS][WRITERS_KEPT];
};
