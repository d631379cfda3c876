/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The host as a whole: CPU time by mode, the CPUs online, the host's uptime; memory and swap, page faults
 * and kills; and pressure stall information: how long tasks waited for a resource (Linux,
 * Documentation/accounting/psi.rst); and what each whole disk (no partition, no loop, no RAM disk) read and
 * wrote.
 */
#include "source.h"

#define CPU_MODES 8
struct system_state {
        int64_t held[CPU_MODES]; /* idle and iowait can step back a little (proc(5)): a counter must not */
};
void system_look(struct system_state *s, const struct metrics_look *l);

enum pressure_resource {
        PRESSURE_CPU,
        PRESSURE_MEMORY,
        PRESSURE_IO,
        PRESSURE_IRQ, /* of the host only, from kernel 6.1 on, where it was built in */
        _PRESSURE_MAX,
};
const char *pressure_resource_name(enum pressure_resource r);

/* Pure: the total of the line "some" or "full", in microseconds. False: there is none. */
bool pressure_total(const char *text, const char *kind, int64_t *ret_usec);
/* Pure: how many CPUs a list like "0-3,8" names. 0: it is none. */
int64_t cpu_list_count(const char *text);

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
void disks_look(struct disks_state *d, const struct metrics_look *l);
