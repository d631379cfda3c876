/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The directories of tpu-launchd: what is kept, and what is of this boot. runs_new() makes them. */
#include "paths.h"

#define STATE_RUNS PATH_LAUNCHD_STATE "/runs" /* one file a run: its specification, 0600 */
#define STATE_EXITS PATH_LAUNCHD_STATE "/exits" /* one file a run that ended: exit_record.h */
/* One file a run, handover.h. Not listable, so that a name is no news. */
#define STATE_HANDOVER PATH_LAUNCHD_RUNTIME "/handover"
/* One file a run that was given secrets, root's alone: secret.h. */
#define STATE_SECRETS PATH_LAUNCHD_RUNTIME "/secrets"
