/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which of the processes that hold a TPU are one run, whoever started them, and what it is called.
 *
 * The principle: holders are of one run when one process of theirs started them all. From each holder we
 * climb to its parent for as long as the parent is in the same unit or container, and is not where people
 * type: a shell with a terminal gives each command line a process group of its own. Holders with a common
 * ancestor below that are one run. Its main process is the nearest one that all of its holders come from; of
 * one holder it is the holder.
 *
 * Of a process's environment only the variables named in holders.c are looked at, and only their values that
 * are names go on. Reads /proc through the host seam; nothing is kept.
 */
#include "container.h"
#include "device_owners.h"
#include "exit_record.h"
#include "proc_pid.h"

#define HOLDER_GROUPS_MAX 16u
#define HOLDER_PIDS_MAX   64u
#define HOLDER_NAME_MAX   41 /* as of a run: run_name_is_valid() */

struct holder_group {
        uint32_t main_pid, uid;
        uint64_t start_ticks;  /* when main_pid started, since the boot: tells a number used again */
        usec_t started_boot;   /* the same on the boot clock */
        uint32_t pids[HOLDER_PIDS_MAX]; /* who holds a chip; main_pid need not be one of them */
        size_t n_pids;         /* more are left out */
        char control_group[PROC_PID_GROUP_MAX]; /* of main_pid; "" when it is not known */
        char unit[96];         /* the last .service or .scope of it; "" */
        char container[CONTAINER_SIZE]; /* "docker 0123456789ab": who made it, and how its id begins; "" */
        char container_id[CONTAINER_ID + 1]; /* all of it; "" */
        char command[96];
        char user[48]; /* by /etc/passwd, else "uid1000" */
        char name[HOLDER_NAME_MAX + 1]; /* alike on all hosts of one run; unique among these groups */
        char devices[160];     /* "/dev/vfio/0 /dev/vfio/1" */
};

/* What runs that we started hold is left out: their unit is below tpu-run.slice. Groups in the order of
 * their main process's start. Returns how many; *ret_left_out: groups that found no room. */
size_t holders_group(const struct host *h, const struct device_owners *o,
                     struct holder_group ret[static HOLDER_GROUPS_MAX], size_t *ret_left_out);

/* Whether its main process is still that one. */
bool holder_group_lives(const struct host *h, const struct holder_group *g);

/* Pure: a name of a run out of free words: lower case, '-' for what a name may not have. "" when nothing is
 * left. */
void holder_name_of(const char *words, char ret[static HOLDER_NAME_MAX + 1]);
