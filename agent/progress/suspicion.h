/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a run takes of its host, beside its log: CPU and disk of its control group, bytes of the host's NICs.
 * From counters that are read now and then it finds what is usual while steps go on, and what it is since
 * the last one. Pure, of fixed size. What is not known is negative, and is evidence of nothing.
 */
#include "base.h"
#include "rhythm.h"

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
        /* behind the last step, and 10 to 20 s back: what is done now counts */
        struct activity_reading mark, mid;
        struct activity_rate usual[ACTIVITY_KEPT];
        uint32_t n, next;
        struct activity_rate pending; /* usual, unless a pause has begun in it */
        bool pends;
};

/* --- Silence --- */

/*
 * Whether a run whose log tells no steps has gone silent. No single sign says so: its log, the network and
 * its CPU must, and where it is known how long the TPU has been idle, that, too; and all of them for
 * SILENCE_SPAN, after the run was busy for long enough to know what that is (SILENCE_WINDOWS windows of
 * readings, with traffic on the network). A CPU is silent when it falls to almost nothing, or to another
 * height than it had and stays there: a loop that spins.
 */
#define SILENCE_SPAN (60 * USEC_PER_SEC)
#define SILENCE_LOG (30 * USEC_PER_SEC)
#define SILENCE_WINDOWS 12u

struct silence {
        usec_t since;     /* all signs say so since then; 0: they do not */
        double low, high; /* cores of the windows since then */
};

/* When it is to be believed; USEC_INFINITY: it is not silent. */
usec_t silence_due(const struct silence *s);

/*
 * Whether a run on this host has stalled, from outside and without settings. It learns how long the run's
 * steps take, and suspects when none comes for longer than that run ever makes one wait. What it learns is
 * of one start of the run; a new start begins with run_watch_init().
 *
 * A run is suspected SUSPICION_LEAST, or SUSPICION_TIMES the median interval between two steps, after its
 * last step, whichever is longer. It is suspected later only
 *  - behind a step where a pause was before, or after a line that announces a kind of pause seen before: one
 *    and a half times the longest of those after the step, or the line;
 *  - while the log says that a pause is in progress and the run works: a minute later, if none of its kind
 *    was seen before.
 * A run whose log reports no steps at all is suspected when all other signs agree (struct silence). Before
 * SUSPICION_STEPS intervals are known it is suspected after a minute or five times the longest, whichever
 * is longer; with one step alone, after ten minutes (the second step may be compiled, too); before the
 * first step, by silence alone. A line that reports a pause that goes on, or is over, counts like a step.
 *
 * A suspicion is no verdict. Its kind says what else is seen; who decides looks at all hosts, at their
 * stacks, and twice. That look is had once in five minutes only. So a suspicion counts at once when nothing
 * explains the silence. What may well be a pause is given SUSPICION_GRACE more, and SUSPICION_WORK_MAX while
 * it still works. A run whose usual load is not known yet is given the grace, too.
 *
 * Pure: time is the caller's, of the boot clock. Of fixed size, nothing is allocated.
 */

/* The promise is 10 s and 2.5 steps: the rest is for the line to get here, and for the step that the fault
 * broke. */
#define SUSPICION_LEAST (9 * USEC_PER_SEC)
#define SUSPICION_TIMES 2.4
#define SUSPICION_STEPS 3u
#define SUSPICION_GRACE (50 * USEC_PER_SEC)
#define SUSPICION_WORK_MAX (150 * USEC_PER_SEC)
#define SUSPICION_STEP_NONE UINT64_MAX
#define SUSPICION_WHY_MAX 320u

enum suspicion_kind {
        SUSPICION_STALL, /* nothing that is seen explains it */
        /* no step, but the run writes, or burns more cores than in steps: it may compile or save */
        SUSPICION_WORK,
        SUSPICION_PAUSE, /* the log announced a pause, which lasts too long */
        _SUSPICION_KIND_MAX,
};
/* "stall", "work", "pause". */
const char *suspicion_kind_name(enum suspicion_kind k);

struct suspicion {
        bool suspected;
        bool counts; /* all hosts of the run are to be looked at for it */
        enum suspicion_kind kind;
        usec_t since;            /* the last sign of progress: what stopped the run came after it */
        usec_t at;               /* when it was suspected */
        /* the same on the real clock: the caller's to fill in, kept while it lasts */
        usec_t at_real;
        uint64_t last_step;      /* SUSPICION_STEP_NONE: its log reported none */
        usec_t expected;         /* the median interval between two steps; 0: not known */
        usec_t limit;            /* how long was waited */
        struct activity_rate usual, now; /* what the run took in steps, and takes since */
        char why[SUSPICION_WHY_MAX]; /* one sentence without its end: "no step for 31 s after step 120, …" */
};

struct run_watch {
        struct rhythm rhythm;
        struct pauses pauses;
        struct activity activity;
        struct silence silence; /* of a run without steps */
        bool stepped;         /* last_step and last_at are known */
        bool calm, rough;     /* since the last reading steps went on; one of them took too long */
        uint64_t last_step;   /* the highest, since the run last went back */
        usec_t last_at;
        usec_t line_at;       /* the last line of any kind; 0: none */
        enum pause_kind announced; /* by a line behind the last step, and not reported to be over */
        usec_t announced_at;
        enum pause_kind told;  /* the last that a line reported behind the last step, over or not */
        /* a line reported that a pause goes on, or that it is over: a sign of life, as a step is */
        usec_t alive_at;
        unsigned long_ones;   /* intervals in a row that were longer than they should be */
        usec_t look_at;       /* not suspected before; 0: when it is due */
        struct suspicion suspicion;
        uint64_t suspicions[_SUSPICION_KIND_MAX];
};

enum run_step {
        RUN_STEP_SAME,     /* another process of the run says what is known, or a little late */
        RUN_STEP_FORWARD,  /* progress */
        RUN_STEP_BACK,     /* the run went back, to a checkpoint: progress, too, but no step time */
};

void run_watch_init(struct run_watch *w);
/* What a step ends. */
struct run_stepped {
        struct suspicion ended; /* a suspicion; else it is not suspected */
        usec_t interval;        /* since the step before; 0: there is none */
        uint64_t steps;         /* made in it */
        bool late;              /* it took longer than a step may */
        enum pause_kind told;   /* what the log said of that */
};
/* A step line. */
enum run_step run_watch_step(struct run_watch *w, uint64_t step, usec_t at, struct run_stepped *ret);
/* Any other line. */
void run_watch_line(struct run_watch *w, const char *line, size_t len, usec_t at);
/*
 * Counters of the run, every now and then, and when it is due. True: the suspicion of a run without steps is
 * over, for it does something again; *ret_ended is it.
 */
bool run_watch_reading(struct run_watch *w, const struct activity_reading *r, struct suspicion *ret_ended);
/* No line could come until now: steps that are missing prove nothing, and are waited for anew. */
void run_watch_blind(struct run_watch *w, usec_t now);
/* When to judge it next; USEC_INFINITY: not before there is another step. */
usec_t run_watch_due(const struct run_watch *w);

enum run_judged {
        RUN_JUDGED_SAME,
        RUN_JUDGED_SUSPECTED, /* now, and not before */
        RUN_JUDGED_COUNTS,    /* it was, and counts now */
};
/* To be called with fresh counters read. */
enum run_judged run_watch_judge(struct run_watch *w, usec_t now);
