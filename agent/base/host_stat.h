/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the kernel says about a file, a file system and the clock: questions whose answers are no file's
 * content. With a root other than "/" the answers come from that root, so that a fixture never shows the
 * real machine: lines of text below /kernel there.
 *
 *   /kernel/stat    PATH TYPE MODE UID GID       ("/dev/vfio/0 c 0666 0 0"; TYPE c, -, d or l); a path
 *                   without a line is looked at as the file it is in the tree
 *   /kernel/space   PATH DEVICE BYTES AVAILABLE FILES FREE [BYTES-FREE]
 *   /kernel/clock   SYNCHRONIZED(0|1) OFFSET_USEC MAXERROR_USEC
 */
#include <sys/types.h>

#include "base.h"
#include "host.h"

struct host_stat {
        mode_t mode; /* with the type, as in stat(2) */
        uid_t uid;
        gid_t gid;
        uint64_t size;
};
/* Follows symlinks. -errno of open(2) or fstat(2). Never blocks on a fifo; on a stuck file system it may. */
int host_stat(const struct host *h, const char *path, struct host_stat *ret);

struct host_space {
        uint64_t device;                 /* equal for two paths of one file system */
        uint64_t bytes, bytes_available; /* available: to who is not root */
        uint64_t bytes_free;             /* to root */
        uint64_t files, files_free;      /* files 0: this file system counts none */
};
/* -ENODATA: this root has no answer. On a stuck file system this blocks. */
int host_space(const struct host *h, const char *path, struct host_space *ret);

struct host_clock {
        bool synchronized;
        int64_t offset_usec;     /* what the kernel still has to correct */
        uint64_t max_error_usec; /* it knows that the clock is not off by more */
};
/* adjtimex(2), only reading. -ENODATA: this root has no answer; -EPERM: a sandbox that filters the call. */
int host_clock(const struct host *h, struct host_clock *ret);

/* What is mounted where: /proc/self/mountinfo (proc(5)), which asks no file system. */

struct mount_entry {
        char point[256], type[32], source[64]; /* a longer source is cut */
        bool read_only, mounted_read_only;     /* the file system, for all its mounts; this mount alone */
        bool no_programs;                      /* noexec */
        dev_t device;                          /* a number of its own with btrfs, whatever disk it lies on */
};

/* Pure: one line. False: it is none, or its point or type is longer. */
bool mountinfo_parse(const char *line, struct mount_entry *ret);
/* Every mount, in the order of the kernel, later ones over earlier ones, until visit answers false.
 * -errno. */
int mountinfo_visit(const struct host *h, bool (*visit)(const struct mount_entry *m, void *userdata),
                    void *userdata);

/* Whether ld.so could load a library at all: what its ELF header says (elf(5)). */

#define ELF_WHY_MAX 96

/*
 * Whether path is an ELF64 x86-64 shared object. 0, or -errno with the reason in why: -ENOENT when it is not
 * there, -ENOEXEC when it is something else.
 */
int elf_check_library(const struct host *h, const char *path, char why[static ELF_WHY_MAX]);
