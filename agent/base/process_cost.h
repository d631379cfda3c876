/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a daemon itself costs the host, from /proc/self through the seam. A file of its own because
 * tpu-hostd and tpu-collectord both publish it, as process.cpu.time and process.memory.usage
 * (on /metrics: process_cpu_seconds_total and process_resident_memory_bytes).
 */
#include "base.h"
#include "host.h"

struct process_cost {
        double cpu_seconds;       /* user and system, since the process started */
        uint64_t resident_memory; /* bytes */
};
/* 0, or -errno when the kernel does not say: a folder of fixtures may hold no such files. */
int process_cost_read(const struct host *h, struct process_cost *ret);

/* Pure: CPU time in clock ticks out of /proc/PID/stat's text (utime and stime: fields 14 and 15).
 * -EBADMSG. */
int process_cost_parse_stat(const char *text, uint64_t *ret_user, uint64_t *ret_system);
