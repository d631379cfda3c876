/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The runs of this host as tpu-launchd reports them, asked over its local socket without ever blocking. An
 * absent launchd means that the runs are not known; it is no error.
 */
#include <systemd/sd-event.h>

#include "host_runs.h"

struct launchd_runs_handlers {
        /* A run started or ended at or after the time that launchd_runs_new() was given. Each once. */
        void (*started)(const struct host_run *run, void *userdata);
        void (*exited)(const struct host_run *run, void *userdata);
        /* There is another list, or the runs are not known any more. */
        void (*listed)(void *userdata);
};

struct launchd_runs;
/* socket: launchd's; NULL or empty: runs are never known. handlers borrowed. since_real: now. */
int launchd_runs_new(sd_event *e, const char *socket, usec_t since_real,
                     const struct launchd_runs_handlers *h, void *userdata, struct launchd_runs **ret);
struct launchd_runs *launchd_runs_free(struct launchd_runs *runs);
DEFINE_CLEANUP(struct launchd_runs *, launchd_runs_free)

/*
 * Asks for the list, now and whenever it changes: what starts and ends is reported at once. A question
 * that is still open is left alone for 10 s; then that counts as no answer, and it is asked again over
 * another connection.
 */
void launchd_runs_refresh(struct launchd_runs *runs);
/* The same out of turn: a question that is still open is left alone, however old it is. */
void launchd_runs_ask(struct launchd_runs *runs);
/* The number of the last question, from 1: a list of a greater number was asked for later than now. */
uint64_t launchd_runs_asked(const struct launchd_runs *runs);
const struct host_runs *launchd_runs_get(const struct launchd_runs *runs);

/*
 * Pure: goes from old to new and reports what changed: a run not in old, or restarted, whose start is at or
 * after since, has started; one that is "exited" in new and was not in old (or was never seen) and ended at
 * or after since, has exited.
 */
void launchd_runs_compare(const struct host_runs *old, const struct host_runs *new, usec_t since,
                          const struct launchd_runs_handlers *h, void *userdata);
