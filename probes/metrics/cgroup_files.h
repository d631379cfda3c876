/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What one control group of version 2 took, from its own files (Linux,
 * Documentation/admin-guide/cgroup-v2.rst). A number that its kernel or its controllers do not give is -1. A
 * group that vanished and came again is found again.
 */
#include "system.h"

#define CGROUP_PATH_MAX 192

enum cgroup_file {
        CGROUP_CPU_STAT,
        CGROUP_MEMORY_CURRENT,
        CGROUP_MEMORY_STAT,
        CGROUP_MEMORY_EVENTS,
        CGROUP_PIDS_CURRENT,
        CGROUP_IO_STAT,
        CGROUP_CPU_PRESSURE,
        CGROUP_MEMORY_PRESSURE,
        CGROUP_IO_PRESSURE,
        _CGROUP_FILE_MAX,
};

struct cgroup_files {
        char path[CGROUP_PATH_MAX];
        struct source files[_CGROUP_FILE_MAX];
};
/* base: cgroup_base(); group: below it, "/system.slice/x.service". -ENAMETOOLONG. */
int cgroup_files_init(struct cgroup_files *c, const char *base, const char *group);
void cgroup_files_close(struct cgroup_files *c);

/* Where version 2 is mounted: by itself, or beside version 1. NULL: nowhere. */
const char *cgroup_base(const struct host *h);

/*
 * The group of this path and those below it, six levels deep at most: containers have some of their own.
 * take is given the path and the group's number (Linux, cgroup_id(): the inode's on 64-bit machines);
 * -ENOMEM of it ends the walk. -ENOENT: there is no such group.
 */
int cgroup_walk(const struct host *h, const char *path,
                int (*take)(const char *path, uint64_t id, void *userdata), void *userdata);

struct cgroup_cpu {
        int64_t user_usec, system_usec, throttled_usec;
};
struct cgroup_memory {
        int64_t current, anonymous, file, kernel;
        int64_t oom_kills;
        /* Pages that had to be read from a disk at a fault; file pages that were thrown out and needed
         * again; pages that its own threads had to free before they got any. */
        int64_t major_faults, refaults, reclaimed;
};
struct cgroup_io {
        int64_t read_bytes, written_bytes;
};
void cgroup_cpu(struct cgroup_files *c, const struct metrics_look *l, struct cgroup_cpu *ret);
void cgroup_memory(struct cgroup_files *c, const struct metrics_look *l, struct cgroup_memory *ret);
void cgroup_io(struct cgroup_files *c, const struct metrics_look *l, struct cgroup_io *ret);
int64_t cgroup_memory_current(struct cgroup_files *c, const struct metrics_look *l);
int64_t cgroup_tasks(struct cgroup_files *c, const struct metrics_look *l);
/* Microseconds; r is cpu, memory or io. */
void cgroup_pressure(struct cgroup_files *c, enum pressure_resource r, const struct metrics_look *l,
                     int64_t *ret_some, int64_t *ret_full);

/*
 * --- What each training run takes: the control group of its slice, tpu-run-NAME.slice, which holds its
 * service and its containers. ---
 */

#define RUN_GROUPS_MAX 16 /* runs whose files are kept open */
#define RUN_NAME_SIZE 64

struct run_group {
        char run[RUN_NAME_SIZE];
        struct cgroup_files files;
        struct cgroup_cpu cpu; /* as of the last look */
        struct cgroup_io io;
        bool seen;
};
struct runs_state {
        struct run_group groups[RUN_GROUPS_MAX];
        size_t n;
};
/* "/tpu.slice/tpu-run.slice/tpu-run-NAME.slice", below cgroup_base(); group, where it is not NULL: a run
 * that others started is in that one. -EINVAL: no name of a run, no control group, or too long. */
int run_group_path(const char *run, const char *group, char *buf, size_t size);
void runs_init(struct runs_state *r);
void runs_close(struct runs_state *r);
/* One run; base as of cgroup_base(), group as of run_group_path(). */
void runs_look(struct runs_state *r, const char *base, const char *run, const char *group,
               const struct metrics_look *l);
/* Forgets the runs that were not looked at since the last call. */
void runs_end(struct runs_state *r);
/* What the run took so far: as of the last look, or looked at anew. NULL: it cannot be looked at. */
const struct run_group *runs_counters(struct runs_state *r, const char *base, const char *run,
                                      const char *group, bool anew, const struct metrics_look *l);
