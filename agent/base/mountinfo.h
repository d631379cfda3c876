/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What is mounted where: /proc/self/mountinfo (proc(5)), which asks no file system. */
#include <sys/types.h>

#include "host.h"

struct mount_entry {
        char point[256], type[32], source[64]; /* a longer source is cut */
        dev_t device;                          /* a number of its own with btrfs, whatever disk it lies on */
};

/* Pure: one line. False: it is none, or its point or type is longer. */
bool mountinfo_parse(const char *line, struct mount_entry *ret);
/* Every mount, in the order of the kernel, later ones over earlier ones, until visit answers false. -errno. */
int mountinfo_visit(const struct host *h, bool (*visit)(const struct mount_entry *m, void *userdata),
                    void *userdata);
