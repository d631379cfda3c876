/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The one thread of the program: it takes descriptors, calls fdatasync on each, closes them and answers. It
 * shares nothing with the loop but a pair of sockets: tasks go in, results come out. There are a few slots,
 * each with at most one task at a time; tasks are done one by one, in the order of their start.
 */
#include <systemd/sd-event.h>

#include "base.h"

#define SYNC_SLOTS_MAX 8
#define SYNC_FDS_MAX 3

struct sync;

/* done runs in the loop, once for each task: result is 0, or -errno of the first fdatasync that failed. */
int sync_new(sd_event *e, void (*done)(size_t slot, int result, void *userdata), void *userdata,
             struct sync **ret);
/* Waits for the tasks that were started (a disk that hangs keeps it waiting); done is not called any
 * more. */
struct sync *sync_free(struct sync *s);
DEFINE_CLEANUP(struct sync *, sync_free)

/*
 * Takes over n descriptors; directory: the last one is one, and gets an fsync. -EBUSY: the slot has a task;
 * they then stay the caller's.
 */
int sync_start(struct sync *s, size_t slot, const int *fds, size_t n, bool directory);
