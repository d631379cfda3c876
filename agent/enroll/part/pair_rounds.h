/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which two hosts of a slice measure the bandwidth between them in which round. It follows from worker and
 * round alone, so that hosts agree on it without a word. Pure.
 *
 * The rounds are the first ones of the circle method, by which a tournament is held: in each round each host
 * has one partner, and no two meet twice. With an odd number one host has none in each round.
 */
#include "base.h"

#define PAIR_NICS_MAX 4 /* of one pair: what is measured between the first, the second … NICs of both */
#define PAIR_ROUNDS_MAX 14
#define PAIR_TIME USEC_PER_SEC /* of one measurement: this, or: */
#define PAIR_BYTES ((uint64_t) 1 << 30)

/* log2 of the hosts, rounded up; one more for an odd number, whose hosts pause by turns. 0: below 2. */
unsigned pair_rounds(unsigned hosts);
/* The worker that this one meets; -1: none. Both are below their numbers. */
int pair_partner(unsigned hosts, unsigned worker, unsigned round);
/* When a round is given up at the latest, after the request came. nics: of each pair. */
usec_t pair_deadline(unsigned round, unsigned nics);
