/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Requests for stacks: the records capture/SLICE. A round (two captures, some seconds apart) is asked of all
 * hosts of a run at once, by a record for each of its slices, with one episode: when its hosts begin to
 * suspect that it stalls, or when people want it; of one generation at most one in CAPTURES_APART. Inside
 * this room only.
 */
#include "tally.h"

#define CAPTURES_APART  (300 * USEC_PER_SEC)
#define CAPTURES_AHEAD  (1 * USEC_PER_SEC) /* so that all hosts know of it in time */
#define CAPTURES_END    (2 * USEC_PER_SEC) /* after a run broke: by then all know how theirs ended */
#define CAPTURES_SECOND (5 * USEC_PER_SEC) /* from the first capture of a round to the second */

/* Rounds more of a stall that lasts, CAPTURES_APART after each other: who was slow in the first may be stuck
 * by then. */
#define CAPTURES_AGAIN 2u

/* Of a run that runs. *ret_next: when to look again. -ENOMEM. */
int captures_step(struct gang *g, struct gang_run *r, const struct tally *t, usec_t *ret_next);

/*
 * Of slices that no run of the registry has. Where each host of one has one run that the registry did not
 * start (a local one, or one that was adopted), these are taken for one run, whatever their names: its hosts
 * are asked for what runs there. -ENOMEM.
 */
int captures_local(struct gang *g, usec_t *ret_next);

/* A host's part failed: its hosts are asked once when and how theirs ended, and where those are that have
 * not. -ENOMEM. */
int captures_ended(struct gang *g, struct gang_run *r, const struct tally *t);

/*
 * capture/SLICE as somebody wants it: without "episode" it is an order, and completed here for all slices of
 * the run that has the slice (or is named); with one it is a record as it was. -EBADMSG, -ENOENT, -EBUSY
 * with why.
 */
int captures_want(struct gang *g, const char *slice, const json_t *value, char why[static GANG_WHY_MAX]);
