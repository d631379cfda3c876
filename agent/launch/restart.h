/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether and when a local run that ended is restarted. Pure: what follows from the same record and
 * counts is the same before and after our own death.
 *
 * A start that makes no progress is one in which the run's log reported no new step, and which did not last
 * RESTART_LIVED either (for runs whose log reports none). RESTART_NO_PROGRESS of them in a row, and it is
 * not restarted, whatever is left of its budget.
 */
#include "cause.h"

#define RESTART_NO_PROGRESS 3 /* NVRx: max_no_progress_cycles */
#define RESTART_LIVED (600 * USEC_PER_SEC)
#define RESTART_FIRST                                                                                       \
        (500 * USEC_PER_MSEC) /* before the first start after progress; each that makes none doubles it */
#define RESTART_PAUSE_MAX (300 * USEC_PER_SEC)

/* Kept in the run's file, as of its last start. */
struct restarts {
        uint32_t done; /* starts after the first */
        uint32_t idle; /* the last so many starts made no progress */
        bool step_known;
        uint64_t best_step;
};

struct restart_decision {
        bool again;
        usec_t pause; /* from the end on */
        struct restarts next; /* to be kept with the next start */
        char words[128]; /* "restart 2 of 5", or why not; "" when no policy was given */
};
/* end: of the start that lasted for lived. max: the budget. */
void restart_decide(const struct restarts *done, uint32_t max, const struct exit_record *end,
                    enum cause cause, usec_t lived, struct restart_decision *ret);
