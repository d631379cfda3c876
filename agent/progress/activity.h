/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a run takes of its host, beside its log: CPU and disk of its control group, bytes of the host's NICs. From
 * counters that are read now and then it is told what is usual while steps go on, and what it is since the last one.
 * Pure, of fixed size. What is not known is negative, and is evidence of nothing.
 */
#include "base.h"

#define ACTIVITY_KEPT 16u /* windows of steps that went on */
#define ACTIVITY_ENOUGH 2u /* of them, before anything is called usual */

/* Counters since any moment; at is of the boot clock. */
struct activity_reading {
        usec_t at;
        int64_t cpu_usec, written_bytes, net_bytes;
        double device_idle; /* seconds that the TPU has done nothing; not a counter */
};
/* A second. */
struct activity_rate {
        double cores, written, net;
};

struct activity {
        struct activity_reading last;      /* at 0: none, as of the others */
        struct activity_reading mark, mid; /* behind the last step, and 10 to 20 s back: what is done now counts */
        struct activity_rate usual[ACTIVITY_KEPT];
        uint32_t n, next;
        struct activity_rate pending; /* usual, unless a pause has begun in it */
        bool pends;
};

/* The rates between two readings. All unknown when no time lies between them; a counter that went back is unknown. */
struct activity_rate activity_between(const struct activity_reading *from, const struct activity_reading *to);
/* calm: steps went on since the last reading, without a pause; unless the next step tells otherwise, that is usual. */
void activity_take(struct activity *a, const struct activity_reading *r, bool calm);
/* A step was done, after no longer than it should take, or not: what is read next is behind it. */
void activity_stepped(struct activity *a, bool in_time);
/* The median of each while steps go on; unknown while too little was seen. */
struct activity_rate activity_usual(const struct activity *a);
/* Lately, up to the last reading; of what lies behind the last step alone. */
struct activity_rate activity_since(const struct activity *a);

/*
 * It does something: it writes, or burns more cores, as checkpoints and compilers do; or it takes the CPU and the network
 * that steps take, which a long step behind a pause does and nothing that stands. Unknown is no.
 */
bool activity_is_work(const struct activity_rate *usual, const struct activity_rate *now);

/* --- Silence --- */

/*
 * Whether a run whose log tells no steps has gone silent. No single sign says so: its log, the network and its CPU must, and
 * where it is known how long the TPU has been idle, that, too; and all of them for SILENCE_SPAN, after the run was busy for
 * long enough to know what that is (SILENCE_WINDOWS windows of readings, with traffic on the network). A CPU is silent when
 * it falls to almost nothing, or to another height than it had and stays there: a loop that spins.
 */
#define SILENCE_SPAN (60 * USEC_PER_SEC)
#define SILENCE_LOG (30 * USEC_PER_SEC)
#define SILENCE_WINDOWS 12u

struct silence {
        usec_t since;     /* all signs say so since then; 0: they do not */
        double low, high; /* cores of the windows since then */
};

/*
 * One window of readings, that ended at now; line_at: the last line of the log (0: none); idle: seconds that the TPU did
 * nothing (negative: not known). Returns whether it was silent.
 */
bool silence_take(struct silence *s, const struct activity *a, const struct activity_rate *window, usec_t began, usec_t now,
                  usec_t line_at, double idle);
/* When it is to be believed; USEC_INFINITY: it is not silent. */
usec_t silence_due(const struct silence *s);
