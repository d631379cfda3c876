/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which hosts of a slice are slow, by the bandwidth between pairs of them. Pure.
 *
 * What is slow is so against the median of all measurements: below 7 tenths of it, and below it by 4 times
 * the median deviation, where rates are spread. A host has two ends: it sends and it receives. An end is
 * blamed when all that was measured of it is slow, twice at least; of ends that explain the same, as few are
 * blamed as explain all that can be explained. So of a slow host's peers none is blamed.
 */
#include "base.h"

#define PAIR_HOSTS_MIN 3 /* of two nobody can say which is slow */

struct pair_rate {
        unsigned from, to; /* who sent, who received */
        uint64_t rate;     /* bytes/s */
        bool slow, explained; /* pair_judge() sets them; explained: an end of it is blamed */
};

struct pair_end {
        unsigned measured, slow, unexplained; /* measurements */
        uint64_t sum;                         /* of all that was measured, bytes/s */
        bool blamed;
};

struct pair_host {
        struct pair_end sends, receives;
};

struct pair_judged {
        uint64_t median, limit; /* bytes/s; slow is what is below the limit */
        unsigned slow;          /* measurements */
};

/* Judges n rates of one kind of NIC. hosts is for each of n_hosts, which are above all from and to.
 * -ENOMEM. */
int pair_judge(struct pair_rate *rates, size_t n, struct pair_host *hosts, unsigned n_hosts,
               struct pair_judged *ret);
