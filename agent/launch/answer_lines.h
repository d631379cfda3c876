/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The answer to LinesRequest: what a run has printed. Root and who may read the journal get the lines of
 * every run of that name, anyone else those of runs of its own, without being in any group. The number of
 * readers is bounded, for each of them is a process.
 */
#include "runs.h"
#include "questions.h"

#define READERS_MAX 16
#define READERS_OF_A_USER_MAX 4 /* root may have all */

/* Answers later, or -errno with p. */
int answer_lines(struct askers *all, sd_event *e, const struct host *h, struct runs *r,
                 struct frame_peer *peer, const struct caller *c, const Local__LinesRequest *q,
                 struct problem *p);
/* A run has ended: who waits for its lines gets the last of them. */
void answer_lines_ended(struct askers *all, const struct kept_run *kept);
