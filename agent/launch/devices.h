/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The TPU's devices before a start: who else has one open, and the lock that libtpu leaves behind when it is
 * killed. This is decided here, on what the kernel shows, whatever tpu-hostd says.
 */
#include "host.h"
#include "problem.h"
#include "run_spec.h"

/*
 * Where libtpu keeps its lock (jax#10192, pytorch/xla#3214: a stale one, or another user's, stops every
 * later run with "libtpu already in use"). It is removed when no process has a TPU open, nobody holds a lock
 * on it, and it is a plain file; else it stays.
 */
#define LIBTPU_LOCKFILE_DIRECTORY "/tmp"
#define LIBTPU_LOCKFILE "libtpu_lockfile"

/*
 * Returns 0, or -EBUSY with p naming device, process, unit and command. Not every process could be looked
 * at, or none: 0 and a line in warning (size bytes; NULL: none is wanted). A spec that shares devices is not
 * looked at.
 */
int devices_check(const struct host *h, const struct run_spec *s, const char *run, struct problem *p,
                  char *warning, size_t size);

/*
 * The nodes that a run may open, as PID 1 sees them (our own /dev is a private one): /dev/accelN, those in
 * /dev/vfio, /dev/fuse, by which gcsfuse mounts the training data, and what the run's spec names.
 * NULL-terminated, to be freed by strings_free(); NULL when out of memory.
 */
char **devices_nodes(const struct host *h, const struct run_spec *s);
