/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Contests over the passes of the daemon, and the file that says which there are (intent/contested.h).
 * --once ends contests by that file: it takes out what it has set.
 */
#include "pass.h"

/* The daemon's start: nothing is contested. */
void contests_start(struct netcfg *n);
/* What is wrong was read, and nothing is written yet: of the daemon. */
void contests_begin(struct netcfg *n, const struct plan *sources, const struct found *found);
/* All is written. written: 0, or -errno when that was not finished. */
void contests_end(struct netcfg *n, enum pass_kind kind, int written);
