/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who slows a run down that goes on, out of the counters that its hosts push anyway: the CPU time of the run
 * on each host by windows (straggler.h), with the time it waited for a CPU, while steps rise. The hosts of a
 * run are those that push steps of the same run that rise alike; so nothing needs to be known of how it was
 * started.
 *
 * CPU time alone is not enough: a first rank that writes logs takes more, too, and nobody waits for it. A
 * host is named only when, besides, steps have become slower than this run's own best by PACE_SLOWER, and
 * its CPU time of a step has grown by that, too, more than that of the others; or when from the start it
 * computes for PACE_BUSY of one core and more while the others do no more than PACE_OTHERS of that.
 *
 * Pure: time is the caller's, in µs since 1970 as the hosts say it. Bounded: PACE_RUNS_MAX runs, those not
 * heard of for PACE_FORGOTTEN make room.
 */
#include "base.h"
#include "straggler.h"

/* A window ends with a push behind so long a time and so many steps: a pause between two steps (compile,
 * checkpoint, evaluation) lies in two of them at most, which is no straggler. */
#define PACE_WINDOW (30 * USEC_PER_SEC)
#define PACE_STEPS 4
#define PACE_SLOWER 1.3
#define PACE_BUSY 0.5
#define PACE_OTHERS 0.66
#define PACE_RUNS_MAX 1024u
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
        size_t hosts;              /* of the run */
        double busy, others;       /* computing, in cores: the host, and the median of the others */
        double step_seconds, best; /* now, and in the run's best time; best: 0: not known */
        unsigned windows;          /* in how many of STRAGGLER_WINDOWS it stood out */
        char sentence[PACE_SENTENCE_MAX];
};

struct pace;
int pace_new(struct pace **ret); /* -ENOMEM */
struct pace *pace_free(struct pace *p);
DEFINE_CLEANUP(struct pace *, pace_free)
/* Begins anew, as from pace_new(). */
void pace_forget(struct pace *p);

/* The last step that the host has seen. -ENOMEM. */
int pace_step(struct pace *p, const struct pace_source *who, const char *run, uint64_t step, usec_t at);
enum pace_part {
        PACE_USER,
        PACE_SYSTEM,
        PACE_WAITED, /* for a CPU: "some" of the cpu.pressure of the run's group; none where it is not known */
        _PACE_PART_MAX,
};
/* The run's seconds since it began; user and system of one time make a reading. 1: *ret says who slows the
 * run down, told once; 0; -ENOMEM. */
int pace_cpu(struct pace *p, const struct pace_source *who, const char *run, enum pace_part part,
             double seconds, usec_t at, struct pace_verdict *ret);
