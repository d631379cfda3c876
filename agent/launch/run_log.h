/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The lines of a run that no systemd runs: /var/lib/tpu-launchd/logs/NAME, all of one start, which its user
 * and root read. The run writes into the file itself, so that no process of ours is between it and its
 * lines. The file keeps its newest bytes: the oldest are given back to the disk as a hole (fallocate(2)),
 * what is left keeps its place in it, and no line is lost between two steps of that. Where the file system
 * makes no holes it grows, and the log of launchd says so.
 */
#include <sys/types.h>

#include "host.h"

/* Removes what an earlier start left, and opens a new one to append to, its user's to read. A descriptor or
 * -errno. */
int run_log_open(const struct host *h, const char *name, uid_t uid);
/* It is no error when there is none. */
void run_log_remove(const struct host *h, const char *name);

/* Leaves at least the newest size/2 and at most size bytes of it on the disk. 1: something was given back;
 * 0; -errno. */
int run_log_trim(int fd, uint64_t size);

/* Removes those that were last written to before real, but for the runs that go on (their shims live). */
void run_logs_forget(const struct host *h, usec_t real);
