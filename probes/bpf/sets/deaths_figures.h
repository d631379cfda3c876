/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once
/*
 * What deaths.bpf.c counts, and puts into its ring buffer "death_ring", for both sides. Included behind
 * vmlinux.h or <linux/types.h>. Processes are numbers of the agent's pid namespace; what has none there is
 * no business of the agent's.
 */
#define DEATH_RING_BYTES (64 * 1024)
#define DEATH_COMM_MAX 16 /* TASK_COMM_LEN */
#define DEATH_GROUP_MAX 80

struct deaths_figures {
        __u64 lost; /* records that found no room in the ring */
};

enum death_kind {
        DEATH_SIGNAL = 1, /* a signal that may end it was sent to the victim */
        DEATH_OOM,        /* the OOM killer chose the victim */
        DEATH_EXIT,       /* the victim was ended by the signal */
};

enum death_sender {
        DEATH_BY_PROCESS,
        DEATH_BY_KERNEL, /* OOM killer, a fault, a limit */
};

struct death_record {
        __u64 at;          /* nanoseconds of the boot clock */
        __u32 kind;        /* enum death_kind */
        __s32 signal;
        __s32 victim;      /* process */
        __s32 global;      /* the victim as the first pid namespace numbers it */
        __u32 sender_kind; /* enum death_sender: as all behind it, of DEATH_SIGNAL alone */
        __s32 sender;      /* process; 0: it lives outside the agent's pid namespace */
        __u32 sender_uid;
        __u32 reserved;
        char victim_comm[DEATH_COMM_MAX], sender_comm[DEATH_COMM_MAX];
        char run[DEATH_GROUP_MAX]; /* the victim's control group "tpu-run-NAME.slice"; empty: in none */
        char sender_group[DEATH_GROUP_MAX]; /* the last part of the sender's control group */
};
