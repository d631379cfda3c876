/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How long a run's steps take, learned from the run itself: the last intervals between two signs of
 * progress. Robust: half of them may be pauses without moving the median. Pure, of fixed size, nothing is
 * allocated.
 */
#include "base.h"

#define RHYTHM_KEPT 64u /* intervals; a pace that changed for good is believed after four, see suspicion.c */

struct rhythm {
        usec_t last[RHYTHM_KEPT];   /* as they came; next is where the following one goes */
        usec_t sorted[RHYTHM_KEPT]; /* the same, shortest first */
        uint32_t n, next;
};

void rhythm_clear(struct rhythm *r);
/* The oldest interval is forgotten when all places are taken. */
void rhythm_add(struct rhythm *r, usec_t interval);
/* 0 while there is none. */
usec_t rhythm_median(const struct rhythm *r);
/* The median of the last n (1 to RHYTHM_KEPT); 0 while there are fewer. */
usec_t rhythm_recent(const struct rhythm *r, uint32_t n);
/* The shortest interval that at least percent (0 to 100) of all do not exceed; 0 while there is none. */
usec_t rhythm_quantile(const struct rhythm *r, unsigned percent);

/* --- Step times: a histogram that only grows; pauses between steps are in it, as the steps behind them - */

#define STEP_TIMES_BOUNDS 18u
/* Seconds, rising. */
extern const double step_times_bounds[STEP_TIMES_BOUNDS];

struct step_times {
        uint64_t counts[STEP_TIMES_BOUNDS + 1]; /* each up to its bound; the last one above all */
        uint64_t n;
        double sum, min, max; /* seconds; min and max while n > 0 */
};

/* steps of them took interval together: each its part. Nothing for 0 steps. */
void step_times_add(struct step_times *t, usec_t interval, uint64_t steps);

/*
 * --- Pauses between steps that are no stalls: compiling, keeping a checkpoint, evaluating. They are known
 * by what the run's log says about them, and by their place: a run pauses after every so many steps.
 * Bounded. ---
 */

enum pause_kind {
        PAUSE_NONE, /* nothing said what it was */
        PAUSE_COMPILE,
        PAUSE_CHECKPOINT,
        PAUSE_EVALUATION,
        _PAUSE_KIND_MAX,
};
/* "compile", "checkpoint", "evaluation"; "pause" for PAUSE_NONE. */
const char *pause_kind_name(enum pause_kind k);

/* --- What a line says --- */

#define PAUSE_LINE_MAX 512u /* bytes of a line that are looked at: the words stand near its start */

enum pause_sign {
        PAUSE_SIGN_NONE,
        PAUSE_BEGINS, /* from here on no step may come for a while */
        PAUSE_GOES_ON, /* a pause of that kind is in progress, or has just begun unsaid */
        PAUSE_ENDS,
};
/* Lines of MaxText, Orbax, JAX, Megatron and Hugging Face's Trainer (rhythm.c names each), else words in
 * plain English. */
enum pause_sign pause_sign_of(const char *line, size_t len, enum pause_kind *ret);

/* --- Where they are --- */

#define PAUSE_CHAINS 6u

struct pause_chain {
        uint64_t step;   /* after which the last one was */
        uint64_t period; /* steps from one to the next; 0: seen once */
        usec_t longest;
};
struct pauses {
        struct pause_chain chains[PAUSE_CHAINS];
        /* of those that were reported, from the line that reported it; 0: none was */
        usec_t longest[_PAUSE_KIND_MAX];
        uint32_t n, next;                /* chains in use; the one that a new one takes the place of */
};

/* A pause of that length was behind step. Once seen twice at a distance, it is expected at that distance
 * again. */
void pauses_take(struct pauses *p, uint64_t step, usec_t length);
/* How long the longest pause was that is expected behind step; 0: none is. */
usec_t pauses_expected(const struct pauses *p, uint64_t step);
/* One of a kind that was reported took so long. */
void pauses_told(struct pauses *p, enum pause_kind kind, usec_t length);
