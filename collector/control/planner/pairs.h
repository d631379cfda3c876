/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The bandwidth between the hosts of a slice: the record pairs/SLICE. It is asked of all hosts of a whole
 * slice on which nothing runs, when people want it, or before runs as the planner's options have it. While
 * it is measured no run begins there. What the hosts report is judged here (pair_judge.h). Inside this room
 * only.
 */
#include "state.h"

/* Of one slice: not more often. What is measured costs every host up to PAIR_BYTES a round and direction. */
#define PAIRS_APART (600 * USEC_PER_SEC)

/* A record of an earlier planner. */
int pairs_load(struct gang *g, const char *slice, const json_t *v, char why[static GANG_WHY_MAX]);
/* pairs/SLICE as somebody wants it: "by". -ENOENT, -EBUSY, -EINVAL with why. */
int pairs_want(struct gang *g, const char *slice, const json_t *value, char why[static GANG_WHY_MAX]);
/* Behind slices_step(): what has been reported is judged, what is due is asked. 1: a slice is to be looked
 * at again; -ENOMEM. */
int pairs_step(struct gang *g, usec_t *ret_next);
