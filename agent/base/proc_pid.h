/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What /proc says of one process (proc(5)): its line of numbers, its control group, and what it costs. */
#include "base.h"
#include "host.h"

#define PROC_PID_FIELDS 53u /* the last is field 52 */

/* /proc/PID/stat or /proc/PID/task/TID/stat. */
struct proc_pid_stat {
        char name[64]; /* comm, which may hold anything, also brackets; not made UTF-8 */
        char state;    /* R, S, D, Z, … */
        /* By proc(5)'s numbers: 4 is the parent. What is negative is so as an int64_t; 0: not there. */
        uint64_t field[PROC_PID_FIELDS];
        unsigned n; /* the number of the last one that is there; 3: none is */
};
/* Pure. -EBADMSG: text is no such line. */
int proc_pid_stat_parse(const char *text, struct proc_pid_stat *ret);
/* Of a process or a thread, by its number. -errno of host_read(). */
int proc_pid_stat_read(const struct host *h, uint32_t pid, struct proc_pid_stat *ret);

/* The control group as systemd names it ("/a.slice/b.service"); "": it is not known, or longer. */
#define PROC_PID_GROUP_MAX 512
void proc_pid_group(const struct host *h, uint32_t pid, char ret[static PROC_PID_GROUP_MAX]);

/*
 * What a daemon itself costs the host. tpu-hostd and tpu-collectord both publish it, as process.cpu.time and
 * process.memory.usage (on /metrics: process_cpu_seconds_total and process_resident_memory_bytes).
 */
struct process_cost {
        double cpu_seconds;       /* user and system, since the process started */
        uint64_t resident_memory; /* bytes */
};
/* 0, or -errno when the kernel does not say: a folder of fixtures may hold no such files. */
int process_cost_read(const struct host *h, struct process_cost *ret);
