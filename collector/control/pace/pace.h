/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who slows a run down that goes on, out of the figures that its hosts send anyway, while steps rise. The
 * hosts of a run are those that report steps of the same run that rise alike; so nothing needs to be known
 * of how it was started.
 *
 * Where hosts look at their sockets, their own parts of a step are compared (straggler.h), and the resource
 * of which the host took more is the cause. The CPU time of the run on each host is compared by windows,
 * too, with the time it waited for a CPU: for runs whose chips talk over their own network alone,
 * and hosts that take several times as long. CPU time alone is not enough: a first rank that writes logs
 * takes more, too, and nobody waits for it. So a host is named only when, besides, steps have become slower
 * than this run's own best by PACE_SLOWER, and its CPU time of a step has grown by that, too, more than that
 * of the others.
 *
 * That a host is slow no more is said, too. Pure: time is the caller's, in µs since 1970 as the hosts say
 * it. Bounded: PACE_RUNS_MAX runs. Those not heard of for PACE_FORGOTTEN, by the caller's own clock, make
 * room: what a host says of the time takes nobody's place.
 */
#include "base.h"
#include "straggler.h"

/* A window ends with a push behind so long a time and so many steps: a pause between two steps (compile,
 * checkpoint, evaluation) lies in two of them at most, which is no straggler. */
#define PACE_WINDOW (30 * USEC_PER_SEC)
#define PACE_STEPS 4
#define PACE_SLOWER 1.3
#define PACE_NOTICED 1.03 /* steps are said to have become slower */
#define PACE_RUNS_MAX 1024u
#define PACE_RUNS_OF_HOST 32u /* that it is the first to speak of: one host leaves places to the others */
#define PACE_FORGOTTEN (600 * USEC_PER_SEC)
#define PACE_AGAIN (1800 * USEC_PER_SEC) /* the same host is named again */
#define PACE_NAME_MAX 64u
#define PACE_SENTENCE_MAX 512u

struct pace_source {
        int64_t host;             /* any number that is the host's own */
        const char *name, *slice; /* slice: NULL or "": not known */
        int64_t worker;           /* -1: not known */
};

struct pace_verdict {
        int64_t host;
        char run[PACE_NAME_MAX], name[PACE_NAME_MAX], slice[PACE_NAME_MAX];
        int64_t worker;
        size_t hosts; /* of the run */
        /* the host, and the median of the others: own parts of a step (0 to 1), or computing, in cores */
        double busy, others;
        bool over;                 /* it is slow no more */
        usec_t lasted;             /* if it is over */
        double step_seconds, best; /* now, and in the run's best time; best: 0: not known */
        unsigned windows;          /* of CPU time: in how many of STRAGGLER_WINDOWS it stood out; else 0 */
        char sentence[PACE_SENTENCE_MAX];
};

struct pace;
int pace_new(struct pace **ret); /* -ENOMEM */
struct pace *pace_free(struct pace *p);
DEFINE_CLEANUP(struct pace *, pace_free)
/* Forgets all runs, as from pace_new(). */
void pace_forget(struct pace *p);

/* What a host reported of one run; seconds are CPU time since the run began. */
struct pace_figures {
        const char *run;
        usec_t at;
        int64_t step;                /* the last one that it has seen; -1: not known */
        double user, system, waited; /* NaN: not known. waited: for a CPU ("some" of cpu.pressure) */
        uint64_t looks,
                owed; /* at its sockets, since its agent started; in how many it had all and owed all */
        struct own_costs costs; /* since the run began */
};
/* now: the caller's own time. 1: *ret says who slows the run down, or that it does no more, once each; 0;
 * -ENOMEM. */
int pace_take(struct pace *p, const struct pace_source *who, const struct pace_figures *f, usec_t now,
              struct pace_verdict *ret);
