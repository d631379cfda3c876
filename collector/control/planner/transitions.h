/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* From one state of a run to the next. Inside this room only. -ENOMEM. */
#include "state.h"

/* No host is missing any more: what the hosts were asked for (missing.h) is forgotten. */
void run_evidence_clear(struct gang_run *r);
void run_enter(struct gang_run *r, enum run_state state, usec_t now);
/* Takes waits over; NULL is out of memory. */
int run_set_waits(struct gang_run *r, json_t *waits);
int run_end(struct gang_run *r, enum run_outcome outcome, usec_t now);
/* Back to waiting, with a new deadline. */
int run_wait_again(struct gang_run *r, usec_t now);
int gang_run_stop(struct gang_run *r, enum run_then then, usec_t now);
/* How long to wait after the n-th failure in a row; 0: not. */
usec_t run_backoff(const struct gang *g, unsigned n);
/* A new generation on these slices. */
int run_begin(struct gang *g, struct gang_run *r, const struct choice *c);
