/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The runs of this host as tpu-launchd tells them, asked over its local socket without ever blocking. An
 * absent launchd means that the runs are not known; it is no error. The list is bounded to LAUNCHD_RUNS_MAX, and
 * every text to its field.
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "run_key.h"

#define LAUNCHD_RUNS_MAX 64

struct launchd_run {
        char name[64], unit[96], state[16], cause[32], code[16], status[16], framework[16], malloc[64],
                user[64], command[257];
        char intent[64], why[200], remedy[160]; /* intent: its serial; why: what shows the cause */
        char step_expression[256]; /* how its step lines look; empty: as usual */
        uint64_t generation; /* of the intent; 0: a local run */
        int64_t last_step;   /* -1: its log told none before it ended */
        usec_t started_real, ended_real; /* 0: not yet */
        uint32_t last_pid; /* its first process, also when that is over; 0: it was not seen */
        uint32_t main_pid, processes, restarts, restarts_max; /* restarts: done so far */
};

struct launchd_run_list {
        struct launchd_run runs[LAUNCHD_RUNS_MAX];
        size_t n;
        bool known; /* the last question was answered */
        uint64_t question; /* which one this answers: launchd_runs_asked() */
};

struct launchd_runs_handlers {
        /* A run was seen to start or to end at or after the time that launchd_runs_new() was given. Each transition
         * is told once. */
        void (*started)(const struct launchd_run *run, void *userdata);
        void (*exited)(const struct launchd_run *run, void *userdata);
        /* There is another list, or the runs are not known any more. May be NULL. */
        void (*listed)(void *userdata);
};

struct launchd_runs;
/* socket: launchd's; NULL or empty: runs are never known. handlers borrowed. since_real: now. */
int launchd_runs_new(sd_event *e, const char *socket, usec_t since_real, const struct launchd_runs_handlers *h,
                     void *userdata, struct launchd_runs **ret);
struct launchd_runs *launchd_runs_free(struct launchd_runs *runs);
DEFINE_CLEANUP(struct launchd_runs *, launchd_runs_free)

/*
 * Asks for the list, and to be told whenever it changes: what starts and ends is heard at once from a launchd that
 * can do that, else with the next question. A question that is still open is left alone for 10 s; then that counts as no
 * answer, and it is asked anew over another connection.
 */
void launchd_runs_refresh(struct launchd_runs *runs);
/* The same out of turn: a question that is still open is left alone, however old it is. */
void launchd_runs_ask(struct launchd_runs *runs);
/* The number of the last question, from 1: a list of a greater number was asked for later than now. */
uint64_t launchd_runs_asked(const struct launchd_runs *runs);
const struct launchd_run_list *launchd_runs_get(const struct launchd_runs *runs);
/* NULL when there is none of that name. */
const struct launchd_run *launchd_runs_find(const struct launchd_runs *runs, const char *name);

/*
 * Pure: goes from old to new and tells what changed: a run not in old, or started anew, whose start is at or
 * after since, has started; one that is "exited" in new and was not in old (or was never seen) and ended at
 * or after since, has exited.
 */
void launchd_runs_compare(const struct launchd_run_list *old, const struct launchd_run_list *new, usec_t since,
                          const struct launchd_runs_handlers *h, void *userdata);
