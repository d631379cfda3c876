/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What each whole disk (no partition, no loop, no RAM disk) read and wrote, from /proc/diskstats.
 *
 * And temperature, energy and thermal throttling of the processors, where the machine has such sensors: a
 * virtual machine has none. They are looked for once. Only sensors that the CPU itself answers are read: the
 * others ask a device over a bus that can hang.
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

#define SENSORS_MAX 32
struct sensor {
        enum metric_id metric;
        char id[32], name[32], path[96];
        struct source file;
};
struct sensors_state {
        struct sensor sensors[SENSORS_MAX];
        size_t n;
};
void sensors_init(struct sensors_state *s, const struct host *h);
void sensors_look(struct sensors_state *s, const struct look *l);
void sensors_close(struct sensors_state *s);
