/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where no systemd runs: one process per run, which starts its command, waits, ends what it leaves behind
 * and writes the exit record that a unit's recorder would. It is in a session of its own and no child of
 * launchd's, which may die, and it is the reaper of all that descends from the command, so that nothing
 * escapes by forking twice.
 *
 * It is told by signals: TERM ends the run (TERM to all, KILL after its grace), USR1 kills it, USR2 with a
 * value sends that signal to the command. While it lives it holds a lock (flock) on
 * /run/tpu-launchd/shims/NAME, which says "SHIM-PID COMMAND-PID ID".
 *
 * The run's lines go to /var/lib/tpu-launchd/logs/NAME (run_log.h). A limit of memory is there where a
 * control group can be made (direct_group.h), the device policy is not.
 */
#include "host.h"
#include "job.h"

#define SHIM_STATUS_FD 3 /* its other end is at its end when the command was executed, or could not be */

struct shim_file {
        pid_t shim, command;
        char id[RUN_ID_MAX];
        bool alive; /* the lock is held */
};
/* -ENOENT, -EBADMSG. */
int shim_file_read(int shims_fd, const char *name, struct shim_file *ret);

/* The processes that descend from pid, without it: at most max. Returns how many. */
size_t shim_descendants(const struct host *h, pid_t pid, pid_t *ret, size_t max);

/* As systemd names them, for a status of waitpid(2). stopped: it was told to end, killed: by KILL. */
void shim_record(int status, bool stopped, struct exit_record *ret);

/* The whole of "tpu-launchd --shim NAME --id ID". Returns an exit code. */
int shim_main(const struct host *h, const char *name, const char *id);
