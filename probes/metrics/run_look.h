/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One run looked at closely, for people who ask: two looks, a little apart, tell what happened between them.
 * All of what its control group counts, and how long each of its threads ran and waited for a CPU
 * (/proc/TID/schedstat; Linux, Documentation/scheduler/sched-stats.rst), and in which state it is, which
 * costs two files a thread and is not for every tick.
 */
#include "cgroup_files.h"

#define RUN_LOOK_THREADS 2048u

#define RUN_THREAD_COMM 16u /* TASK_COMM_LEN */

struct run_thread {
        int64_t tid, waited_ns, ran_ns; /* since it was started */
        char state;                     /* of /proc/TID/stat: R, S, D, …; 0: not known */
        char comm[RUN_THREAD_COMM];
};

struct run_look {
        usec_t at;      /* boot clock */
        uint64_t group; /* inode of the control group */
        struct cgroup_cpu cpu;
        struct cgroup_memory memory;
        struct cgroup_io io;
        int64_t tasks;
        int64_t some[PRESSURE_IO + 1], full[PRESSURE_IO + 1]; /* microseconds */
        struct run_thread *threads; /* sorted by tid */
        size_t n_threads;
        bool more_threads; /* than RUN_LOOK_THREADS */
};
void run_look_clear(struct run_look *l);

/* base: cgroup_base(); run: its name. -ENOENT: it has no control group here; -ENOMEM. */
int run_look_take(const struct host *h, const char *base, const char *run, const char *in, usec_t now,
                  struct run_look *ret);
/*
 * Threads that stood still from one look to the other, and not because they had nothing to do: able to run
 * and on a CPU for at most 1 % of the time, as a quota may leave them, or in state D. No hook sees those:
 * nothing happened to them.
 */
struct run_standing {
        size_t starved, blocked;
        char starved_comm[RUN_THREAD_COMM], blocked_comm[RUN_THREAD_COMM]; /* of the first of them */
};
void run_look_standing(const struct run_look *from, const struct run_look *to, struct run_standing *ret);
/* Nanoseconds that threads which are in both waited between the two, and those that came since at all. -1:
 * not known. */
int64_t run_look_waited(const struct run_look *from, const struct run_look *to);
