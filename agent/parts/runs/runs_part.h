/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that knows the runs of this host: their life from tpu-launchd (bus->runs), their steps and
 * what they print from the journal, which goes out into the uplink's class of its own. The events
 * tpu.run.started and tpu.run.exited.
 * Publishes BUS_RUNS, BUS_RUN_STARTED, BUS_RUN_ENDED and BUS_LINE; whoever wants the list again publishes
 * BUS_ASK_RUNS.
 *
 * The journal wakes tpu-hostd at every write of anybody. So it is followed only while a run lives or the
 * runs are not known; otherwise it is read at each MetricsInterval, which is enough for what a run that
 * has ended still leaves there.
 */
#include "part.h"
#include "run_log.h"

extern const struct part runs_part;

/* Reads what runs have printed; false: there is more, which is read in the next turns. */
bool runs_read_all(const struct bus *b);
