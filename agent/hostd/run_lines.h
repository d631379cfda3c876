/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Hands on the lines that runs print, from the journal, a batch at a time: the next one is read when the last one is
 * durable, so that the journal itself is what lines wait in, and after a kill it is read on from the last durable
 * batch. Which entries are a run's: run_log.h.
 *
 * A line that was handed on and not durable when the process was killed comes again with the same number (of the
 * run's invocation, from 1), so that who stores it can drop the repeat, and sees by a missing number what was lost
 * on the way. At most RUN_LINES_RATE lines a second go out; who prints more than that for longer than
 * RUN_LINES_BEHIND loses lines, which count in the numbers. Lines that the journal itself has dropped while nobody
 * read count as one.
 */
#include <systemd/sd-event.h>

#include "run_lines_state.h"

#define RUN_LINE_MAX 4096    /* bytes; a longer one is cut and ends with RUN_LINE_CUT */
#define RUN_LINE_CUT "\xe2\x80\xa6"
#define RUN_LINES_AT_ONCE 400 /* of one batch */
#define RUN_LINES_PAUSE (1 * USEC_PER_SEC) /* between two batches, unless the last one was full */
#define RUN_LINES_RATE 1000
#define RUN_LINES_BURST 5000
#define RUN_LINES_BEHIND (600 * USEC_PER_SEC)
#define RUN_LINES_AGAIN (8 * USEC_PER_SEC) /* after a batch that could not be kept */

struct run_line {
        const char *run, *invocation; /* invocation: 32 hex digits, or "-" */
        uint64_t number;
        usec_t time_real;
        int priority; /* of syslog: 6 of what a run prints, unless it says otherwise */
        const char *text; /* as it came, but NUL is '?' */
};

struct run_lines_handlers {
        /* -E2BIG: the batch is full, the line comes again in the next one. */
        int (*add)(const struct run_line *l, void *userdata);
        /* What was added, as record *ret_seq of the class. -ENODATA: that was nothing. Forgotten on failure. */
        int (*submit)(uint64_t *ret_seq, void *userdata);
        /* What was added is not to be submitted. */
        void (*drop)(void *userdata);
};

struct run_lines;
/* directory: as run_log_new(); state: the file. handlers borrowed. -errno: there is no journal to read. */
int run_lines_new(sd_event *e, const char *directory, const char *state, const struct run_lines_handlers *h,
                  void *userdata, struct run_lines **ret);
struct run_lines *run_lines_free(struct run_lines *l);
DEFINE_CLEANUP(struct run_lines *, run_lines_free)

/* Records of the class up to seq are durable. */
void run_lines_durable(struct run_lines *l, uint64_t seq);
