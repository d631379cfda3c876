/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The runs of this host as tpu-launchd reports them: bounded to HOST_RUNS_MAX, and every text to its field.
 * Pure.
 */
#include "base.h"
#include "run_key.h"

#define HOST_RUNS_MAX 64

struct host_run {
        char name[64], unit[96], state[16], cause[32], code[16], status[16], framework[16], malloc[64],
                user[64], command[257];
        char intent[64], why[200], remedy[160]; /* intent: its serial; why: what shows the cause */
        char lost_peer[48];        /* whose end its lines name: "10.0.0.2", "task 3"; may be empty */
        char step_expression[256]; /* how its step lines look; empty: as usual */
        uint64_t generation; /* of the intent; 0: a local run */
        int64_t last_step;   /* -1: its log reported none before it ended */
        usec_t started_real, ended_real; /* 0: not yet */
        uint32_t last_pid; /* its first process, also when that is over; 0: it was not seen */
        uint32_t main_pid, processes, restarts, restarts_max; /* restarts: done so far */
        /* Somebody else started it: unit is the one that it is in, and its control group may be shared. */
        bool adopted;
        char control_group[512], container[80], devices[160];
        char image[256]; /* of a run that tpu-launchd started in a container; else empty */
};

struct host_runs {
        struct host_run runs[HOST_RUNS_MAX];
        size_t n;
        bool known; /* the last question was answered */
        uint64_t question; /* which one this answers: bus->runs_asked of then */
};

/* NULL when there is none of that name. */
const struct host_run *host_runs_find(const struct host_runs *l, const char *name);
/* The control group of a run that others started; NULL: its slice. */
const char *host_runs_group(const struct host_runs *l, const char *name);
/* It has not ended. */
bool host_run_lives(const struct host_run *r);
/* How many live, as far as is known. */
size_t host_runs_living(const struct host_runs *l);
/* The name of the one run that lives; else "": what names no run cannot be said to be of one. */
const char *host_runs_only(const struct host_runs *l);
