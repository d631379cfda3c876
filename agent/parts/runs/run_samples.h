/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is sampled of the progress of a run: the metrics tpu.run.* of docs/metrics.md whose numbers its log
 * tells. Pure; what is not known makes no series.
 */
#include "checkpoint.h"
#include "goodput.h"
#include "rhythm.h"
#include "steps.h"

struct sink;
void run_sample_time(struct sink *s, const char *run, const struct goodput *g);
/* NULL: no step was read. */
void run_sample_step(struct sink *s, const char *run, const struct step_line *step);
void run_sample_durations(struct sink *s, const char *run, const struct step_times *t);
/* steps_since: -1: not known. */
void run_sample_checkpoint(struct sink *s, const char *run, const struct checkpoint *c, int64_t steps_since,
                           usec_t now_real);
