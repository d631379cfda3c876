/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who ended the processes of runs: the event tpu.run.killed_by, and what is said of a run that ended. Told by the BPF
 * set "deaths"; without it nothing is said.
 */
#include "agent.h"
#include "deaths.h"

void agent_deaths_stop(struct bus *b);
/* What waits is read. The sets were taken: it can begin. */
void agent_deaths_tick(struct bus *b);
/* What ended the run, "SIGKILL from pid 4242 (xyz, uid 0, session-3.scope)"; empty: nothing was seen. Returns buf. */
const char *agent_killed_by(struct bus *b, const struct host_run *run, char buf[static DEATH_TEXT_MAX]);
