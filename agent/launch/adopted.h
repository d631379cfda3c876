/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Runs that others started: what holds the chips and is no run of ours becomes a run of the table (runs.h),
 * is listed, watched and captured like one, and never started, stopped, restarted or signalled by us.
 *
 * It is found by a walk over the open files of all processes (owners.h). A walk follows
 *   - an open or close of a device node in /dev (inotify);
 *   - another mark of the chips, read every ADOPT_MARK_EVERY: containers have other nodes;
 *   - the end of an adopted run, each ADOPT_MARK_EVERY for ADOPT_WATCHFUL: it may be started again;
 *   - ADOPT_LOOK_EVERY, whatever the marks say.
 * Who has run for less than ADOPT_AFTER is not adopted: tools that look at the chips are no runs.
 *
 * An adopted run is over when its main process has ended, or holds no chip any more. How it ended nobody has
 * recorded: its cause is "unknown", or "preempted" when it was notified.
 */
#include "run_table.h"

#define ADOPT_AFTER      (60 * USEC_PER_SEC)
#define ADOPT_MARK_EVERY (10 * USEC_PER_SEC)
#define ADOPT_LOOK_EVERY (300 * USEC_PER_SEC)
#define ADOPT_WATCHFUL   (120 * USEC_PER_SEC)
#define ADOPT_LOOK_APART (2 * USEC_PER_SEC) /* between two walks, whatever happens */

struct adoption;
/* What the site wants is copied; r outlives it. -ENOMEM, -errno: of the loop. */
int adoption_new(struct runs *r, const struct device_settings *s, struct adoption **ret);
struct adoption *adoption_free(struct adoption *a);
DEFINE_CLEANUP(struct adoption *, adoption_free)

/* A walk now, whatever the marks say. */
void adoption_look(struct adoption *a);

/* -EPERM with p: who ends it, and how. */
int adopted_refuse_stop(const struct kept_run *kept, struct problem *p);
/* -ENODATA with p: what it prints went elsewhere, and how to see it. */
int adopted_refuse_lines(const struct kept_run *kept, struct problem *p);
