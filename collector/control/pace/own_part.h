/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which host's own part of a step is longer than the others': from the moment when all that it needs has
 * arrived until it sends. In a synchronous run this alone makes a host slow, whatever it does meanwhile.
 * Hosts look at their sockets many times a step for some steps (agent/parts/net, net_looks.c). The share of
 * looks in which a host had all and owed all is its own part of a step. Pure.
 *
 * A host is found when its share is larger than the others' median by OWN_LEAST, by more than their spread,
 * and by more than so many looks vary by chance. Of n hosts the largest is sqrt(2 ln n) deviations out by
 * chance alone.
 *
 * Where a step has one exchange of all with all, whoever waited for the slowest seems to owe for all of its
 * next step. So one host alone with most of a step (OWN_MOST) has to be proved: by what the extra time went
 * to (own_cause()), or by a step that has become longer since with its own part.
 */
#include "base.h"

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

/* --- Why -------------------------------------------------------------------------------------------------
 */

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
