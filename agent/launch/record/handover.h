/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How a run gets its command and environment: its unit starts "tpu-launchd --exec NAME", which runs as the
 * run's user, reads the handover of NAME, enters the directory and becomes the command.
 *
 * Why not Environment= of the unit: systemd would give it to every command of the unit, and so a user's
 * LD_PRELOAD to the recorder, which runs as root; and anyone may read a unit's properties, while the
 * handover is readable by its user only. Why not the command in ExecStart=: systemd writes it into a unit
 * file and reads that again at each daemon-reload, by rules of quoting that differ between versions: no
 * text of a user's is to stand beside the recorder's line. Besides, PATH and the directory are then looked
 * up with the user's own rights.
 *
 * A handover is /run/tpu-launchd/handover/NAME: NUL-terminated texts, first the directory, then the number
 * of arguments and these, then "KEY=VALUE" to set or "KEY" to take away.
 */
#include <sys/types.h>

#include "host.h"

#define HANDOVER_PREEMPT ".preempt" /* behind the run's name: of its command for a preemption */
#define HANDOVER_SIZE_MAX (2 * 1024 * 1024)
#define HANDOVER_EXIT_NO_COMMAND 127 /* as shells say it */
#define HANDOVER_EXIT_NOT_STARTED 126

/* Replaces the handover of name. uid: who alone may read it. */
int handover_write(int handover_fd, const char *name, uid_t uid, const char *directory, char *const *argv,
                   char *const *env);
/*
 * Of a run in a container the handover is root's, and its command the engine's (engine.h). The variables of
 * the run stand beside it, in NAME.env, which the engine reads: one KEY=VALUE a line, for root alone.
 */
#define HANDOVER_VARIABLES ".env"
const char *handover_variables(const char *name, char buf[static 128]); /* its path */
/* Replaces it. -EINVAL: a variable with a line feed in it. Those to take away are not the engine's. */
int handover_write_variables(int handover_fd, const char *name, char *const *env);
/* It is no error when there is none. */
void handover_remove(int handover_fd, const char *name);

/* Whether its process could not execute the command: it had no handover, or it said so in the mode of that
 * file, the only thing there that it may change. A command that ran may end with any code. */
bool handover_failed(const struct host *h, const char *name);

/* The whole of "tpu-launchd --exec": does not return when the command was started, else the exit code of the
 * process. */
int handover_main(const struct host *h, const char *name);
