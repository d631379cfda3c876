/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What is kept of a run and its hosts, and who says what about it. Inside this room only. */
#include "pace.h"

#define MARKS (STRAGGLER_WINDOWS + 1)
/* A host's counters at the end of a window. */
struct mark {
        usec_t at;
        double cpu;
        uint64_t step;
};

/* What a host has counted so far of its own parts, and of what may lengthen them. */
struct own_count {
        usec_t at;
        uint64_t step, looks, owed;
        struct own_costs costs; /* since the run began */
};

/* The last burst of looks. */
struct own_window {
        usec_t at;      /* 0: none yet */
        bool fresh;     /* not judged yet */
        double seconds; /* of a step in it; 0: not known */
        struct own_part part;
        struct own_costs costs; /* of a step */
};

struct runner {
        int64_t host, worker;
        char name[PACE_NAME_MAX], slice[PACE_NAME_MAX];
        usec_t at; /* of its last figures */
        double cpu, waited;
        uint64_t step;
        bool stepped, knows_waited;
        double best;              /* CPU seconds of a step, when the run was at its best; 0: not known */
        struct mark marks[MARKS]; /* oldest first */
        unsigned n;
        bool looks; /* at its sockets */
        struct own_count from;
        struct own_window own;
        double own_before; /* seconds of its own part in the run's best step by looks; 0: not known */
};

struct pace_run {
        char name[PACE_NAME_MAX];
        int64_t first; /* the host that spoke of it first */
        struct runner **runners; /* by host */
        size_t n, size;
        usec_t heard, judged, named_at;
        bool by_looks;       /* it was named by own parts, not by CPU time */
        int64_t named, last; /* -1: nobody; last: also when it is over */
        double best;         /* seconds a step; 0: not known yet */
        double looked_best;  /* the same, of the steps that were looked at */
        size_t looks;        /* bursts of looks that have ended since they were judged */
};

/* --- What is said, and own parts: pace_own.c --------------------------------------------------------- */

/* The verdict about a host, but for its sentence. */
struct pace_verdict pace_verdict_of(const struct pace_run *run, const struct runner *r, size_t hosts);
/* True: it has become the straggler, and was not a moment ago. */
bool pace_is_news(struct pace_run *run, const struct runner *r, bool by_looks, usec_t now);
void pace_say_cpu(struct pace_verdict *v);
/* 1: the one that was named is not slow any more. */
int pace_end(struct pace_run *run, usec_t now, double seconds, struct pace_verdict *ret);

/* True: it looks at its sockets. */
bool pace_take_looks(struct pace_run *run, struct runner *r, const struct pace_figures *f);
/* When all have looked: 1, 0, -ENOMEM. */
int pace_judge_looks(struct pace_run *run, usec_t now, struct pace_verdict *ret);
