/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a run's time on this host went into, as sums that only grow and add up to the time since it began,
 * but for the step that is in progress. Of an interval between two steps, what a step usually takes is a
 * step's, and all of it while it is no pause; the rest is the pause's. A first step is compiled: it counts
 * as that, as long as its line says it took. Pure; time is the caller's, of the boot clock.
 */
#include "base.h"
#include "rhythm.h"

enum goodput_cause {
        GOODPUT_STEP,
        GOODPUT_START,      /* from its start to its first step */
        GOODPUT_COMPILE,
        GOODPUT_CHECKPOINT,
        GOODPUT_EVALUATION,
        GOODPUT_PAUSE,      /* it wrote or computed, and nothing says what */
        GOODPUT_STALL,
        /* from its end to the first step of its next start, and steps that were made again */
        GOODPUT_RESTART,
        _GOODPUT_MAX,
};
/* "step", "start", … */
const char *goodput_cause_name(enum goodput_cause c);
enum goodput_cause goodput_cause_of(enum pause_kind k); /* GOODPUT_STALL for PAUSE_NONE */

struct goodput {
        usec_t spent[_GOODPUT_MAX];
        usec_t mark;    /* up to here all is counted; 0: it has not begun */
        usec_t counted; /* of the step in progress, by goodput_lose() */
        bool starting, again; /* before the first step; it is not the first start */
        uint64_t best;  /* the highest step so far */
};

/* It began at from; again: it ran before, and what lies between is lost, too. */
void goodput_begin(struct goodput *g, usec_t from, bool again);
/* It was seen running first at now: how it began is not known. */
void goodput_join(struct goodput *g, usec_t now);
/*
 * A step at now. usual: how long one takes, 0: all of it. first: how long the first one took, as its line
 * says (0: not known). cause: what the rest went into.
 */
void goodput_step(struct goodput *g, uint64_t step, usec_t now, usec_t usual, usec_t first,
                  enum goodput_cause cause);
/* No step so far, and by now that is a pause, or a stall. */
void goodput_lose(struct goodput *g, usec_t now, usec_t usual, enum goodput_cause cause);
/* It ended at now. */
void goodput_end(struct goodput *g, usec_t now, enum goodput_cause cause);
/* All that is counted. */
usec_t goodput_total(const struct goodput *g);
/* The part of it that went into steps, 0 to 1; NAN: nothing is counted yet. */
double goodput_share(const struct goodput *g);
