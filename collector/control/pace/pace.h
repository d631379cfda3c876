/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who slows a run down that goes on, out of the counters that its hosts push anyway: the CPU time of the run
 * on each host by windows (straggler_judge() below), with the time it waited for a CPU, while steps rise.
 * The hosts of a run are those that push steps of the same run that rise alike; so nothing needs to be known
 * of how it was started.
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
/* Forgets all runs, as from pace_new(). */
void pace_forget(struct pace *p);

/* What a host reported of one run; seconds are CPU time since the run began. */
struct pace_figures {
        const char *run;
        usec_t at;
        int64_t step;                /* the last one that it has seen; -1: not known */
        double user, system, waited; /* NaN: not known. waited: for a CPU ("some" of cpu.pressure) */
};
/* 1: *ret says who slows the run down, once; 0; -ENOMEM. */
int pace_take(struct pace *p, const struct pace_source *who, const struct pace_figures *f,
              struct pace_verdict *ret);

/*
 * Who slows a run down that goes on. In synchronous training all hosts have the same step time: the slow
 * host is the one that the others wait for. It shows in the share of each window that a host spends
 * computing; what measures it is the caller's: CPU time of the run's slice, 1 - device idle time, 1 - share
 * of stack samples that wait in a collective.
 *
 * A host is the straggler when, in STRAGGLER_WINDOWS_NEEDED of the last STRAGGLER_WINDOWS windows with the
 * last among them, it computes more than all others: by STRAGGLER_RATIO of the median host and by
 * STRAGGLER_MARGIN of the window, and beyond four times the usual spread (median absolute deviation) of the
 * hosts. One loud window is no straggler, and what all hosts share is none.
 */

#define STRAGGLER_WINDOWS 4u
#define STRAGGLER_WINDOWS_NEEDED 3u
#define STRAGGLER_RATIO 1.25
#define STRAGGLER_MARGIN 0.10
#define STRAGGLER_HOSTS_MAX 65536u

struct straggler_verdict {
        bool found;
        size_t host;         /* index in the windows */
        double busy, others; /* its mean share, and the median of the others */
        unsigned windows;    /* in how many it stood out */
};

/*
 * busy[w * n + i] is the share (0 to 1) of window w, oldest first, in which host i computed; negative: not
 * known, and no evidence. With fewer than STRAGGLER_WINDOWS windows, or fewer than three known hosts in a
 * window, nobody is found. -EINVAL (n above STRAGGLER_HOSTS_MAX), -ENOMEM.
 */
int straggler_judge(const double *busy, size_t windows, size_t n, struct straggler_verdict *ret);
