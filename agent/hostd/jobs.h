/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The runs of this host as tpu-launchd tells them, asked over its local socket without ever blocking. An
 * absent launchd means that the runs are not known; it is no error. The list is bounded to JOBS_MAX, and
 * every text to its field.
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "run_key.h"

#define JOBS_MAX 64

struct job {
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

struct job_list {
        struct job jobs[JOBS_MAX];
        size_t n;
        bool known; /* the last question was answered */
        uint64_t question; /* which one this answers: jobs_asked() */
};

struct jobs_handlers {
        /* A run was seen to start or to end at or after the time that jobs_new() was given. Each transition
         * is told once. */
        void (*started)(const struct job *j, void *userdata);
        void (*exited)(const struct job *j, void *userdata);
        /* There is another list, or the runs are not known any more. May be NULL. */
        void (*listed)(void *userdata);
};

struct jobs;
/* socket: launchd's; NULL or empty: runs are never known. handlers borrowed. since_real: now. */
int jobs_new(sd_event *e, const char *socket, usec_t since_real, const struct jobs_handlers *h,
             void *userdata, struct jobs **ret);
struct jobs *jobs_free(struct jobs *j);
DEFINE_CLEANUP(struct jobs *, jobs_free)

/*
 * Asks for the list, and to be told whenever it changes: what starts and ends is heard at once from a launchd that
 * can do that, else with the next question. A question that is still open is left alone for 10 s; then that counts as no
 * answer, and it is asked anew over another connection.
 */
void jobs_refresh(struct jobs *j);
/* The same out of turn: a question that is still open is left alone, however old it is. */
void jobs_ask(struct jobs *j);
/* The number of the last question, from 1: a list of a greater number was asked for later than now. */
uint64_t jobs_asked(const struct jobs *j);
const struct job_list *jobs_get(const struct jobs *j);
/* NULL when there is none of that name. */
const struct job *jobs_find(const struct jobs *j, const char *name);

/*
 * Pure: goes from old to new and tells what changed: a run not in old, or started anew, whose start is at or
 * after since, has started; one that is "exited" in new and was not in old (or was never seen) and ended at
 * or after since, has exited.
 */
void jobs_compare(const struct job_list *old, const struct job_list *new, usec_t since,
                  const struct jobs_handlers *h, void *userdata);
