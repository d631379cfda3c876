/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once
/*
 * What the watch programs of sched.bpf.c count, for both sides. Times are nanoseconds; who watches sets all
 * to zero before. Included behind vmlinux.h or <linux/types.h>.
 */
#define SCHED_SHARDS \
        16 /* of counters, by CPU: so that cores do not wait for each other; the reader adds them up */
#define SCHED_BUCKETS 24 /* of delays: below 1 us, 2 us, 4 us, … 2^22 us; the last one: all above */
#define SCHED_WAITS 8
#define SCHED_FRAMES 10
#define SCHED_STACK_TEXT 448
#define SCHED_CPUS 1024 /* a power of two */

/* Written by who watches, before it attaches. */
struct sched_orders {
        __u64 group;           /* inode of the run's control group; 0: nobody is watched */
        __u64 since;           /* monotonic clock: what began before is of an earlier watch */
        __u8 node[SCHED_CPUS]; /* each CPU's NUMA node */
};

struct sched_shard {
        __u64 delays, delay_ns;           /* waits for a CPU that ended, wakeups and preemptions together */
        __u64 preemptions, preempted_ns;  /* of these: it was put off its CPU while it wanted to run on */
        __u64 blocked, blocked_ns;        /* waits in state D that ended */
        __u64 softirqs, softirq_ns;       /* that ran on top of a thread of the run */
        __u64 migrations, node_migrations;
        __u64 switches; /* looked at, of whomever: what the watch itself costs counts by them */
        __u64 buckets[SCHED_BUCKETS];     /* of delays */
        __u64 preempted_buckets[SCHED_BUCKETS], blocked_buckets[SCHED_BUCKETS];
};

/* Waits in state D at one place of the kernel. */
struct sched_wait {
        __u64 place; /* 0: free */
        __u64 waits, ns, longest_ns;
        char comm[16];               /* of the longest */
        char stack[SCHED_STACK_TEXT]; /* "io_schedule+0x4c/0x80 folio_wait_bit+0x…", innermost first */
};

struct sched_figures {
        struct sched_shard shards[SCHED_SHARDS];
        struct sched_wait waits[SCHED_WAITS];
        __u64 lost; /* threads that found no room */
};
