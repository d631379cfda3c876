/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Who holds the chips of this host, for verbs besides tpuctl chips. */
#include "options.h"

/* What tpuctl chips prints, for tpuctl top: asks and prints. The exit code. */
int chips_print(const struct options *o, bool json);

/*
 * tpuctl run --replace: ends who holds the chips, with the rights of who asks and nobody else's. A process
 * is taken by a pidfd before it is looked at again, so that a number which another process has by now is
 * never signalled. TERM, then KILL after REPLACE_GRACE. Runs of ours are left to tpuctl stop.
 */
#define REPLACE_GRACE (10 * USEC_PER_SEC)

/* yes: it is not asked for. 0 when the chips are free; else the exit code, after saying who holds them. */
int replace_holders(const struct options *o, bool yes);
