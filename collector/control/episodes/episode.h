/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One episode as it is kept in memory: the list of them, what a diagnosis means for it, and its events.
 * Inside this room only.
 */
#include <jansson.h>

#include "base.h"
#include "clock.h"
#include "episodes.h"

struct episode {
        struct episode *next;
        char id[64], run[64], slice[64]; /* slice: its first */
        int64_t generation;
        bool suspected, begun; /* begun: in the store */
        bool excused;          /* not confirmed for its progress */
        bool stalls;           /* a host says that nothing moves, not only that it is unusual */
        uint64_t hosts;        /* that were asked; 0: not known */
        uint64_t got[2], seen; /* captures of each round; seen: at the last look */
        unsigned rounds, looks;
        json_t *expected;     /* host -> true; NULL: whoever answers is one */
        json_t *pausing;      /* host -> true: its log had announced a pause; NULL: none */
        json_t *working;      /* likewise: its agent sees the run work there */
        usec_t due;           /* boot clock; USEC_INFINITY: nothing is to be done */
        usec_t at, confirmed; /* real clock */
};

#define EPISODES_STALL_TIME (1200 * USEC_PER_SEC) /* rounds of one stall: three, 5 minutes apart */

/* The registry knows a run by its name and generation. What others started has no generation, and there its
 * slice and the time say so, whatever it is called. */
static inline bool episode_is_of_stall(const struct episode *x, const struct episode *y) {
        usec_t apart = MAX(x->at, y->at) - MIN(x->at, y->at);

        return y != x && y->generation == x->generation && streq(y->run, x->run) &&
               ((x->run[0] && x->generation > 0) ||
                (streq(y->slice, x->slice) && apart <= EPISODES_STALL_TIME));
}

/* NULL: none of that name. */
struct episode *episode_find(struct episode *first, const char *id);

/*
 * A new one in front: nothing due, two rounds, generation -1. Beyond EPISODES_OPEN_MAX the oldest goes, of
 * those that hosts began where they are over half; but never `looking` (may be NULL). The list owns it.
 * NULL: out of memory.
 */
struct episode *episode_add(struct episode **first, const char *id, const struct episode *looking);

void episode_list_clear(struct episode **first);

/* --- The verdict: pure ----------------------------------------------------------------------------- */

struct verdict_text {
        const char *outcome, *summary;       /* of the report */
        const char *slice, *host, *sentence; /* of the first suspect that is named; "": nobody */
        int64_t worker;                      /* -1 */
        bool moved, saves; /* of that suspect: docs/diagnose.md */
};
/* -EBADMSG for what is no report. Texts are the report's. */
int verdict_read(const json_t *report, struct verdict_text *ret);

/* What else is known when a verdict is judged. */
struct verdict_case {
        bool suspected; /* the hosts suspect a stall */
        bool stalls;    /* one of them sees that nothing moves, not only that it is unusual */
        /* Of the host that is named: its log announced that it saves, compiles or evaluates, for no longer
         * than that may take; its agent sees that the run works there (it writes, or burns more cores than
         * in steps). */
        bool pauses, works;
        unsigned excused; /* rounds of this stall that were not confirmed for its progress */
};
/* Then it is a stall, whatever moves: the planner asks for no more rounds, either. */
#define VERDICT_EXCUSES 2u

enum verdict_says {
        VERDICT_SAYS_NOTHING,
        /* The run made no step between the captures, and there is a host to name; or the hosts themselves
         * see that nothing moves, whoever it is. */
        VERDICT_CONFIRMS,
        /* It would, but the host that is named writes, and gets on: it is looked at again. */
        VERDICT_PROGRESSES,
};
enum verdict_says verdict_judge(const struct verdict_text *v, const struct verdict_case *c);

/* Of all rounds of this stall: list has this and the others, newest first. */
enum verdict_says episode_judge(const struct episode *list, const struct episode *x,
                                const struct verdict_text *v);
/* Another episode of the same stall whose verdict was confirmed; NULL: none. */
const struct episode *episode_confirmed_before(const struct episode *list, const struct episode *x);
/* Whether there is an older one of the same stall that was confirmed. */
bool episode_has_older(const struct episode *x);

/* --- Events, inside a transaction: -ENOMEM, the store's -------------------------------------------- */

/* Whether a verdict confirms the first word about the same stall, in words; "": there is none. */
#define FIRST_WORD_SAYS_MAX 160u
void episode_compare_words(const struct episodes_options *o, const struct episode *x,
                           const struct verdict_text *v, char buf[static FIRST_WORD_SAYS_MAX],
                           const struct first_word **ret);
/* Under the host that is named, and a line in the journal. Not confirmed: it is not stuck, and is looked at
 * again. */
int episode_report_verdict(const struct episodes_options *o, const struct episode *x,
                           const struct verdict_text *v, bool confirmed);
/* tpu.run.recovered */
int episode_report_recovered(const struct episodes_options *o, const struct episode *x);
