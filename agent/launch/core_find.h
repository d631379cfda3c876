/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where the core of a process is that crashed: as core_pattern says (core(5)), in the folder of its run or
 * in one that the pattern names, or where systemd-coredump(8) keeps it, which may come a moment later. Its
 * name counts, and that it was written since the run began: whose it is shows when it is opened as the run's
 * user. Read by a process of its own, which looks at no file's content.
 */
#include "host.h"

#define CORE_KEPT_BY_SYSTEMD "/var/lib/systemd/coredump"
#define CORE_FIND_WAIT (20 * USEC_PER_SEC)
#define CORE_PATH_MAX 4096
#define CORE_PATTERN_MAX 256

struct core_wanted {
        char root[CORE_PATH_MAX]; /* "", or what stands before all paths */
        char pattern[CORE_PATTERN_MAX], folder[CORE_PATH_MAX]; /* of core_pattern; of the run */
        uid_t uid;
        pid_t pid;
        usec_t began_real;
};

/*
 * Pure: the folder of the core, and what its name is like (fnmatch(3)). -ENOTSUP: the pattern has a
 * specifier in the folder, or pipes cores to a program other than systemd's.
 */
int core_place(const struct core_wanted *w, char folder[static CORE_PATH_MAX],
               char name[static CORE_PATH_MAX]);
/* In a child: writes its path, without root; nothing: there is none. data: struct core_wanted. */
int core_find(int fd, const void *data);
