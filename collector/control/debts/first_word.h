/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The first word about a run that is suspected to stall: who holds it up, from sockets alone (debts.h),
 * before any capture. Hosts say what their sockets show with their figures (docs/registry.md). It is judged
 * when all hosts of the run have said it, or FIRST_WORD_WAIT after most of them have. It is judged again
 * when others follow, until the verdict is clear.
 *
 * A stall is known by when its last step was, so that what a host repeats is no other stall. Pure: time is
 * the caller's, in µs since 1970. Bounded.
 */
#include <jansson.h>

#include "debts.h"

#define FIRST_WORD_WAIT (1 * USEC_PER_SEC)
#define FIRST_WORD_APART (5 * USEC_PER_SEC)  /* last steps of hosts differ by less within one stall, or by */
#define FIRST_WORD_STEPS 2u                  /* so many step times */
#define FIRST_WORD_KEPT (120 * USEC_PER_SEC) /* a host that is not heard for so long is none of the run */
#define FIRST_WORD_RUNS_MAX 256u
#define FIRST_WORD_RUNS_OF_HOST 16u /* that it is the first to speak of */
#define FIRST_WORD_NAME_MAX 64u
#define FIRST_WORD_TEXT_MAX 700u

struct first_word_source {
        const char *host, *slice; /* slice: NULL or "": not known */
        int64_t worker;           /* -1: not known */
};

struct first_word {
        char run[FIRST_WORD_NAME_MAX];
        uint64_t generation;
        usec_t at, since; /* when it was said; the last step of the run */
        enum debts_says says;
        char host[FIRST_WORD_NAME_MAX], slice[FIRST_WORD_NAME_MAX]; /* "": nobody */
        int64_t worker;
        size_t hosts, said;             /* of the run; that have said something */
        char text[FIRST_WORD_TEXT_MAX]; /* "first word, from sockets alone (4 of 4 hosts): …" */
};

struct first_words;
int first_words_new(struct first_words **ret); /* -ENOMEM */
struct first_words *first_words_free(struct first_words *w);
DEFINE_CLEANUP(struct first_words *, first_words_free)
/* Forgets all, as from first_words_new(). */
void first_words_forget(struct first_words *w);

/* One figure of a sync; what cannot be understood says nothing. -ENOMEM. */
int first_words_take(struct first_words *w, const struct first_word_source *who, const json_t *figure,
                     usec_t now);
/* When to judge; USEC_INFINITY: nothing is to be judged. */
usec_t first_words_due(const struct first_words *w);
/* A run that is due; NULL: none. Borrowed until the next call. */
const char *first_words_due_run(const struct first_words *w, usec_t now);
/*
 * Judges it. slices: as in the record of the run, so that hosts that say nothing have names; NULL: not
 * known. 1: *ret is new, and better than what was said of this stall before; 0; -ENOMEM.
 */
int first_words_judge(struct first_words *w, const char *run, const json_t *slices, usec_t now,
                      struct first_word *ret);
/* What was said last of this start of the run; NULL: nothing. */
const struct first_word *first_words_of(const struct first_words *w, const char *run, uint64_t generation);
