/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A run of which a host is missing: whether it goes on, ends or is started without it, and what follows from
 * a word that comes late. Inside this room only. What returns int: -ENOMEM.
 */
#include "tally.h"

#define CAUSE_UNKNOWN   "unknown"
#define CAUSE_HOST_LOST "host-lost"

int run_succeed(struct gang_run *r, usec_t now);
/* Who is to blame, and why: t->bad, or who left with success while the others trained; the first that was
 * lost. */
void run_blame(struct gang_run *r, const struct tally *t);
void run_blame_lost(struct gang_run *r, const struct tally *t);
/* Of a run that runs, where t->lost > 0. */
int run_lose(struct gang *g, struct gang_run *r, const struct tally *t, usec_t *ret_next);
/* How it ended on missing hosts is in the record. */
void run_note_over(struct gang_run *r, const struct tally *t);
/* It was stopped because a host was not heard, and that one comes back and says how it ended there. */
int run_hear_late(struct gang *g, struct gang_run *r, bool *ret_ended);
/* Of a run that has ended: who was missing then is back, and ended it well, too. */
int run_step_ended(struct gang *g, struct gang_run *r);
