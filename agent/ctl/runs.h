/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The runs of this host. */
#include "ask.h"

/* Asks tpu-launchd for this run, or all (NULL). The same shape as GET /v1/runs, without steps: launchd reads
 * no logs. -errno with problem set. */
int runs_of_launchd(const char *root, const char *name, json_t **ret, struct problem *problem);
