/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The mounts of another process (/proc/PID/mountinfo), which asks no file system. */
#include "process.h"

#define MOUNTS_MAX 4096u

struct mount {
        uint32_t id;
        uint64_t device;
        char words[320]; /* "TYPE MOUNTPOINT" */
        unsigned point;  /* where in words the mount point stands */
        bool remote;     /* a server or a program answers for it: FUSE, NFS, … */
};
struct mounts {
        struct mount *items;
        size_t n, size;
};

/* -errno of reading; more than MOUNTS_MAX are left out. */
int mounts_read(const struct process *p, struct mounts *ret);
void mounts_clear(struct mounts *m);
/* NULL: there is none. */
const struct mount *mounts_find(const struct mounts *m, uint32_t id);
/* The one on which an absolute path lies, without looking at the path. */
const struct mount *mounts_of_path(const struct mounts *m, const char *path);
