/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * tpuctl run --replace: ends who holds the chips, with the rights of who asks and nobody else's. A process
 * is taken by a pidfd before it is looked at again, so that a number which another process has by now is
 * never signalled. TERM, then KILL after REPLACE_GRACE. Runs of ours are left to tpuctl stop.
 */
#include "options.h"

#define REPLACE_GRACE (10 * USEC_PER_SEC)

/* yes: it is not asked for. 0 when the chips are free; else the exit code, after saying who holds them. */
int replace_holders(const struct options *o, bool yes);
