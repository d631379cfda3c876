/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that watches one run for seconds with the BPF sets "sched" and "io": they are attached while
 * somebody asks (GET /v1/sched, GET /v1/io) or a run is suspected, then detached. Each set watches one run
 * at a time. The figures are the watch's own: all were zero when it began.
 */
#include "part.h"

extern const struct part watch_part;

/*
 * The run is watched between the two captures of a round. What stood out goes with the second capture, as
 * findings "sched" and "io"; threads that stood still all the time are reported without BPF, too. round 0:
 * it begins, unless a round does already; another one: it ends, and list gets what was found. An end that
 * never comes is made after 30 s.
 */
void watch_round(const struct bus *b, const char *run, uint32_t round, struct finding_list *list);
