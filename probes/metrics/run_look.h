/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One run looked at closely, for people who ask: two looks, a little apart, tell what happened between them. All of what its
 * control group counts, and how long each of its threads waited for a CPU (/proc/TID/schedstat; Linux,
 * Documentation/scheduler/sched-stats.rst), which costs a file a thread and is not for every tick.
 */
#include "cgroup_files.h"

#define RUN_LOOK_THREADS 2048u

struct run_thread {
        int64_t tid, waited_ns; /* since it was started */
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

/* base: cgroup_base(); job: its name. -ENOENT: it has no control group here; -ENOMEM. */
int run_look_take(const struct host *h, const char *base, const char *job, usec_t now, struct run_look *ret);
/* Nanoseconds that threads which are in both waited between the two, and those that came since at all. -1: not known. */
int64_t run_look_waited(const struct run_look *from, const struct run_look *to);
