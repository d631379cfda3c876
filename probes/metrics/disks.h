/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What each whole disk (no partition, no loop, no RAM disk) read and wrote, from /proc/diskstats.
 */
#include "source.h"

#define DISKS_MAX 64
#define DISK_NAME_MAX 32
struct disk_name {
        char name[DISK_NAME_MAX];
        bool whole, seen;
};
struct disks_state {
        struct disk_name names[DISKS_MAX * 4]; /* partitions, too: whether one is was looked up once */
        size_t n;
};
void disks_look(struct disks_state *d, const struct look *l);
