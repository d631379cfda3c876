/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether a run goes on though hosts of it are missing. A host that is not heard may have lost its agent
 * alone: training goes on without that. In synchronous training no step can be completed without every host,
 * so a step of the others that rises is the proof. It is asked for: one host at a time, by the run's record
 * ("ask"); it answers with its step ("asked" in its own record). Inside this room only.
 */
#include "tally.h"

/* Asks when it is time. Returns when the run is begun without them; USEC_INFINITY: not as things are. */
usec_t evidence_until(struct gang *g, struct run *r, const struct tally *t, usec_t *ret_next);
/* Nobody is missing (any more). */
void run_evidence_clear(struct run *r);
