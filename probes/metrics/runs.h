/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What each training run takes: the control group of its slice, tpu-run-NAME.slice, which holds its service
 * and its containers.
 */
#include "cgroup_files.h"

#define RUN_GROUPS_MAX 16 /* runs whose files are kept open */
#define RUN_JOB_MAX 64

struct run_group {
        char job[RUN_JOB_MAX];
        struct cgroup_files files;
        struct cgroup_cpu cpu; /* as of the last look */
        struct cgroup_io io;
        bool seen;
};
struct runs_state {
        struct run_group groups[RUN_GROUPS_MAX];
        size_t n;
};
/* "/tpu.slice/tpu-run.slice/tpu-run-NAME.slice", below cgroup_base(). -EINVAL: no name of a run, or too long. */
int run_group_path(const char *job, char *buf, size_t size);
void runs_init(struct runs_state *r);
void runs_close(struct runs_state *r);
/* One run; base as of cgroup_base(). */
void runs_look(struct runs_state *r, const char *base, const char *job, const struct look *l);
/* Forgets the runs that were not looked at since the last call. */
void runs_end(struct runs_state *r);
/* What the run took so far: as of the last look, or looked at anew. NULL: it cannot be looked at. */
const struct run_group *runs_counters(struct runs_state *r, const char *base, const char *job, bool anew,
                                      const struct look *l);
