/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that sees who ended the processes of runs: the event tpu.run.killed_by, and the text about a run
 * that ended. The BPF set "deaths" reports it; without that set nothing is seen.
 */
#include "deaths.h"
#include "part.h"

extern const struct part deaths_part;

/* What ended the run, "SIGKILL from pid 4242 (xyz, uid 0, session-3.scope)"; empty: nothing was seen.
 * Returns buf. */
const char *deaths_killed_by(const struct bus *b, const struct host_run *run,
                             char buf[static DEATH_TEXT_MAX]);
