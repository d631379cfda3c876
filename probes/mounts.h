/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* File systems of this host's own disks, out of /proc/self/mountinfo (proc(5)). */
#include "base.h"
#include "host.h"

#define MOUNTS_MAX 64
struct mount_point {
        char path[64]; /* longer ones are left out */
        uint64_t device; /* 0: this file system has a number of its own (btrfs) */
};
/*
 * Those whose source is a device in /dev: not what a server holds, which may not answer. Bind mounts of a
 * device come more than once. Returns how many; -errno.
 */
int mounts_read(const struct host *h, struct mount_point *ret, size_t max);

/* Pure: one line. False: none of those. */
bool mount_parse(const char *line, struct mount_point *ret);
