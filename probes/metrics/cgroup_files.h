/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What one control group of version 2 took, from its own files (Linux,
 * Documentation/admin-guide/cgroup-v2.rst). A number that its kernel or its controllers do not give is -1. A
 * group that vanished and came again is found again.
 */
#include "look.h"
#include "pressure.h"

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
        /* Pages that had to be read from a disk at a fault; file pages that were thrown out and needed again; pages that its
         * own threads had to free before they got any. */
        int64_t major_faults, refaults, reclaimed;
};
struct cgroup_io {
        int64_t read_bytes, written_bytes;
};
void cgroup_cpu(struct cgroup_files *c, const struct look *l, struct cgroup_cpu *ret);
void cgroup_memory(struct cgroup_files *c, const struct look *l, struct cgroup_memory *ret);
void cgroup_io(struct cgroup_files *c, const struct look *l, struct cgroup_io *ret);
int64_t cgroup_memory_current(struct cgroup_files *c, const struct look *l);
int64_t cgroup_tasks(struct cgroup_files *c, const struct look *l);
/* Microseconds; r is cpu, memory or io. */
void cgroup_pressure(struct cgroup_files *c, enum pressure_resource r, const struct look *l,
                     int64_t *ret_some, int64_t *ret_full);
