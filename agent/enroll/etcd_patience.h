/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How long a host waits for etcd, and between two tries. A fleet that comes at once is more than etcd answers in
 * a few seconds; who gives up and comes back then makes more of it, until nobody gets through. So who is no
 * member yet, and has nothing to lose, waits long; a member waits as long as its lease has time for. Pure: time
 * and chance are arguments; all spans are microseconds.
 */
#include "base.h"

#define PATIENCE_MOST (30 * USEC_PER_SEC)

struct etcd_patience {
        usec_t least;      /* for one question, whatever else */
        bool alone;        /* there is one member of etcd only: nobody else to ask meanwhile */
        bool joined;       /* we are a member … */
        usec_t left;       /* … and this is left of our lease */
        unsigned failures; /* in a row */
        usec_t slowest;    /* answer of late (etcd_patience_slowest()) */
};

/* Of the next question: at least p->least, at most PATIENCE_MOST. */
usec_t etcd_patience_deadline(const struct etcd_patience *p);
/*
 * After a question that failed when it had taken so long, until the next one; random: 64 random bits. Behind one
 * that was waited for in vain the wait is about as long again; a member's leaves time for three more tries.
 */
usec_t etcd_patience_wait(const struct etcd_patience *p, usec_t spent, uint64_t random);
/* With the answer that took so long: what the next questions are to expect. An answer's slowness is forgotten by a quarter with each that is
 * quicker. */
usec_t etcd_patience_slowest(usec_t slowest, usec_t spent);
