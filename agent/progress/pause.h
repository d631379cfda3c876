/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Pauses between steps that are no stalls: compiling, keeping a checkpoint, evaluating. They are known by what the
 * run's log says about them, and by their place: a run pauses after every so many steps. Pure, bounded.
 */
#include "base.h"

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
        PAUSE_GOES_ON, /* a pause of that kind is under way, or has just begun unsaid */
        PAUSE_ENDS,
};
/* Lines of MaxText, Orbax, JAX, Megatron and Hugging Face's Trainer (pause.c names each), else words in plain English. */
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
        usec_t longest[_PAUSE_KIND_MAX]; /* of those that were told, from the line that told it; 0: none was */
        uint32_t n, next;                /* chains in use; the one that a new one takes the place of */
};

/* A pause of that length was behind step. Once seen twice at a distance, it is expected at that distance again. */
void pauses_take(struct pauses *p, uint64_t step, usec_t length);
/* How long the longest pause was that is expected behind step; 0: none is. */
usec_t pauses_expected(const struct pauses *p, uint64_t step);
/* One of a kind that was told took so long. */
void pauses_told(struct pauses *p, enum pause_kind kind, usec_t length);
