/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that judges whether the runs of this host make steps. What they print comes as BUS_LINE, their
 * life as BUS_RUN_STARTED and BUS_RUN_ENDED, what they take is read in the tick and when a suspicion
 * falls due: for that there is one timer, and nothing is polled. Samples tpu.run.* of suspicions, time,
 * steps and checkpoints, with what lines say; the events tpu.run.stall_suspected and tpu.run.recovered.
 * Publishes BUS_SUSPICION.
 */
#include "checkpoint.h"
#include "part.h"
#include "steps.h"

extern const struct part progress_part;

/* NULL: it is not suspected. Valid until the loop turns. */
const struct suspicion *progress_suspicion(const struct bus *b, const char *run);
/* Its last step line; NULL: none was read. Forgotten in the tick behind its end. */
const struct step_line *progress_step(const struct bus *b, const char *run);
/*
 * The last whole checkpoint that its log reported; NULL: none. *ret_since: the steps that it made since,
 * -1: not known. Its path is for who asks this host, as the run's command is, and leaves it in no report.
 */
const struct checkpoint *progress_checkpoint(const struct bus *b, const char *run, int64_t *ret_since);
/* SUSPICION_STEP_NONE: not known. */
uint64_t progress_last_step(const struct bus *b, const char *run);
/* Its log announced a pause (checkpoint, compile, evaluation) behind its last step, and not its end. */
bool progress_pause_announced(const struct bus *b, const char *run);
/* The share of its time that went into steps, 0 to 1; NAN: not known. */
double progress_goodput(const struct bus *b, const char *run);
/* What it does now: "start" before its first step, "step", or what it stands for: "compile", "checkpoint",
 * "evaluation", "pause", "stall", the causes of tpu.run.time. NULL: the run is not watched. */
const char *progress_doing(const struct bus *b, const char *run);
/* The time from one step line to the next that is expected of it; 0: not known. */
usec_t progress_step_time(const struct bus *b, const char *run);
/*
 * This host's runs as GET /v1/runs lists them; null: they are not known. A new reference; NULL: out of
 * memory.
 */
json_t *progress_runs_to_json(struct bus *b);
/* How many steps one of its step lines reports; 0: not known. */
unsigned progress_steps_a_line(const struct bus *b, const char *run);
/* The median of its last intervals between step lines, and the least that this has been; 0: not known. */
void progress_pace(const struct bus *b, const char *run, usec_t *ret_recent, usec_t *ret_best);
