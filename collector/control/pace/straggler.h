/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
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
#include "base.h"

/* The median of some values; 0 of none. They are sorted. */
double median_of(double *values, size_t n);

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

/* --- Own parts of a step --------------------------------------------------------------------------- */

/*
 * Which host's own part of a step is longer than the others': from the moment when all that it needs has
 * arrived until it sends. In a synchronous run this alone makes a host slow, whatever it does meanwhile.
 * Hosts look at their sockets many times a step for some steps (agent/parts/net, net_looks.c). The share of
 * looks in which a host had all and owed all is its own part of a step.
 *
 * A host is found when its share is larger than the others' median by OWN_LEAST, by more than their spread,
 * and by more than so many looks vary by chance. Of n hosts the largest is sqrt(2 ln n) deviations out by
 * chance alone.
 *
 * Where a step has one exchange of all with all, whoever waited for the slowest seems to owe for all of its
 * next step. So one host alone with most of a step (OWN_MOST) has to be proved: by what the extra time went
 * to (own_cause()), or by a step that has become longer since with its own part.
 */

#define OWN_LEAST 0.02  /* of a step */
#define OWN_LOOKS 200u  /* of one host, before its share counts */
#define OWN_SPREADS 4.0 /* usual spreads of the others */
#define OWN_CHANCE 1.5  /* deviations beyond what the largest of all has by chance */
#define OWN_MOST 0.7    /* of a step, where the others have less than half of it */
#define OWN_HOSTS_MAX 65536u

struct own_part {
        double share; /* 0 to 1; NAN: not known */
        uint64_t looks;
};

struct own_verdict {
        bool found;
        bool alone; /* it has most of a step, and the others have not: to be proved */
        size_t host;
        double share, others; /* the host's, and the median of the others */
};

/* Fewer than three known hosts: nobody is found. -EINVAL (n above OWN_HOSTS_MAX), -ENOMEM. */
int own_part_judge(const struct own_part *parts, size_t n, struct own_verdict *ret);

/* Seconds in a step, NAN where they are not known. */
enum own_cost {
        OWN_MEMORY, /* waited for memory that the kernel had to take back */
        OWN_CPU,    /* wanted a CPU and got none */
        OWN_DISK,   /* waited for a disk */
        OWN_WORK,   /* computed */
        _OWN_COST_MAX,
};
struct own_costs {
        double seconds[_OWN_COST_MAX];
        double retransmits; /* segments in a step */
};

#define OWN_EXPLAINS 0.4    /* of the extra time, to be its cause */
#define OWN_RETRANSMITS 1.0 /* in a step more than the others have */

/* What most of extra went to, which is seconds of a step more than the others; _OWN_COST_MAX: nothing
 * known. */
enum own_cost own_cause(const struct own_costs *host, const struct own_costs *others, double extra);
/* The same in words for a person. Never NULL. */
const char *own_cause_text(const struct own_costs *host, const struct own_costs *others, double extra);
