/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The directories of tpu-launchd, below PATH_LAUNCHD_STATE (kept) and PATH_LAUNCHD_RUNTIME (of this boot),
 * through the seam.
 */
#include "host.h"
#include "paths.h"

#define STATE_JOBS "jobs" /* one file a run: its specification, 0600 */
#define STATE_EXITS "exits" /* one file a run that ended: exit_record.h */
/* Below PATH_LAUNCHD_RUNTIME: one file a run, handover.h. Not listable, so that a name is no news. */
#define STATE_HANDOVER "handover"
/* Below PATH_LAUNCHD_RUNTIME: one file a run that was given secrets, root's alone: secret.h. */
#define STATE_SECRETS "secrets"

/* Opens a directory of the kept state; it must exist. A descriptor or -errno. */
int state_open(const struct host *h, const char *name);
/* Makes what is missing of a directory of the kept state, root's alone, and opens it. */
int state_make(const struct host *h, const char *name);
/* The same for the directory of handovers. */
int state_make_handover(const struct host *h);
/* And of secrets. */
int state_make_secrets(const struct host *h);
