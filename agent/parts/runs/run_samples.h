/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is sampled of the progress of a run: the metrics tpu.run.* of docs/metrics.md whose numbers its log
 * tells. Pure; what is not known makes no series.
 */
#include "goodput.h"
#include "rhythm.h"
#include "steps.h"

struct sink;
void run_sample_time(struct sink *s, const char *run, const struct goodput *g);
/* NULL: no step was read. */
void run_sample_step(struct sink *s, const char *run, const struct step_line *step);
void run_sample_durations(struct sink *s, const char *run, const struct step_times *t);
