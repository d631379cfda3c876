/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Follows the journal for the output of runs, and knows step lines. An entry counts only when the
 * journal itself says (trusted field _SYSTEMD_UNIT) that it came from a service tpu-run-NAME.service:
 * what a process claims about itself proves nothing. Reading starts RUN_LOG_BACK entries before the
 * journal's end, so that a restarted agent knows the runs that were there; entries of another boot are
 * left out. A wakeup reads a bounded number of entries and goes on in the next turn of the loop.
 *
 * Of the two readers of the journal this is the one that is woken by it; it calls run_lines.h when there
 * is something.
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "steps.h"

#define RUN_LOG_RUNS_MAX 64
#define RUN_LOG_BACK 2048
#define RUN_LOG_LINE_MAX 8192 /* a longer MESSAGE is cut */

/* One line; valid during the call. */
struct run_log_line {
        const char *run, *invocation; /* invocation: 32 hex digits of this start of the run, or "-" */
        const char *text;             /* as it came, without a NUL at its end */
        size_t len;
        usec_t at;                    /* boot clock: when the journal got it; now when it does not say */
        const struct step_line *step; /* NULL: it is no step line */
};

struct run_log_handlers {
        void (*line)(const struct run_log_line *l, void *userdata); /* each line of a run */
        void (*read)(void *userdata); /* entries were read that say they are a run's: behind their lines */
};

struct run_log;
/*
 * directory: NULL for the system's journal, else a directory of journal files. handlers borrowed. The
 * journal is followed. -errno: there is no journal to read.
 */
int run_log_new(sd_event *e, const char *directory, const struct run_log_handlers *h, void *userdata,
                struct run_log **ret);
struct run_log *run_log_free(struct run_log *l);
DEFINE_CLEANUP(struct run_log *, run_log_free)

/* A line that came otherwise than by the journal: of a container's log. at: boot clock. */
void run_log_take(struct run_log *l, const char *run, const char *text, size_t len, usec_t at);

/* What a step line is, for all runs; taken over. NULL: the usual forms. */
struct step_expression;
void run_log_expect(struct run_log *l, struct step_expression *e);
/*
 * The same for one run, before that of all; text is compiled when it has changed. Empty: it has none of
 * its own.
 */
void run_log_expect_of(struct run_log *l, const char *run, const char *text);
/*
 * Reads what is there without having been woken: a change may be reported before all of it can be read.
 * False: there is more, and it is read in the next turns.
 */
bool run_log_look(struct run_log *l);
/*
 * Off: nothing wakes us, and entries are read by run_log_look() alone. On: what has come meanwhile is
 * read at once.
 */
void run_log_follow(struct run_log *l, bool on);

/* Forgets the expressions of runs for which keep says no. */
void run_log_prune(struct run_log *l, bool (*keep)(const char *run, void *userdata), void *userdata);

/* Pure: "tpu-run-NAME.service" → NAME. -EINVAL for any other unit. */
int run_log_name_of_unit(const char *unit, size_t len, char ret[static 64]);
