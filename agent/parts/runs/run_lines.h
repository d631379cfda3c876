/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Hands on the lines that runs print, from the journal, a batch at a time: the next one is read when the
 * last one is durable, so that the journal itself is what lines wait in, and after a kill it is read on
 * from the last durable batch. Which entries are a run's: run_log.h.
 *
 * This reader has a place of its own in the journal beside run_log.h's. That one must see a step at once
 * and starts near the end; this one lags behind for as long as the disk or RUN_LINES_RATE wants, which
 * may be hours. One place for both would have to seek back and forth for each batch (a bisection of every
 * journal file), or keep in memory what waits.
 *
 * A line that was handed on and not durable when the process was killed comes again with the same number
 * (of the run's invocation, from 1), so that who stores it can drop the repeat, and sees by a missing
 * number what was lost in between. At most RUN_LINES_RATE lines a second go out; who prints more than
 * that for longer than RUN_LINES_BEHIND loses lines, which count in the numbers. Lines that the journal
 * itself has dropped while nobody read count as one.
 *
 * The state says how far lines were read and how they are numbered. A part is what one start of a run's
 * unit prints (its invocation id, of systemd). The state's file outlives a kill of the process, not a
 * power cut: an older one then says the same numbers for the same lines once more. A state file
 * (state_file.h):
 *
 *   {"cursor": "…", "parts": [{"run": "…", "invocation": "…", "number": 7}, …]}
 */
#include <systemd/sd-event.h>

#include "base.h"

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
        /*
         * What was added, as record *ret_seq of the class. -ENODATA: that was nothing. Forgotten on
         * failure.
         */
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

/* There may be entries that were not read yet. */
void run_lines_look(struct run_lines *l);
/* Records of the class up to seq are durable. */
void run_lines_durable(struct run_lines *l, uint64_t seq);

/* --- The state ----------------------------------------------------------------------------------------- */

#define RUN_LINES_PARTS_MAX 64
#define RUN_LINES_CURSOR_MAX 256
#define RUN_LINES_HEAD "head" /* instead of a cursor: nothing of runs was in the journal */

struct run_lines_part {
        char run[64], invocation[33];
        uint64_t number; /* of the last line */
        uint64_t used;   /* when, in lines of all parts: the longest unused goes first */
};

struct run_lines_state {
        char cursor[RUN_LINES_CURSOR_MAX]; /* of the last entry that was read; empty: not known */
        struct run_lines_part parts[RUN_LINES_PARTS_MAX];
        size_t n;
        uint64_t clock; /* of used */
};

/*
 * The part, made with number 0 when it is new, in the place of the longest unused one if there is no
 * other.
 */
struct run_lines_part *run_lines_part(struct run_lines_state *s, const char *run, const char *invocation);

/* -ENOENT: there is none, or it was set aside; -EBADMSG: not one of ours. *s is empty then. */
int run_lines_load(const char *path, struct run_lines_state *s);
int run_lines_save(const char *path, const struct run_lines_state *s);
