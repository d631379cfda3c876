/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * When each probe runs: at once when the schedule starts, then at its interval with jitter, so that a fleet
 * started together does not look together; a little earlier or later when that saves a wakeup. What was seen
 * worse, and not often enough to count, is looked at again after seconds. That happens a few times within an
 * interval at most, so that what goes to and fro, or is another thing each time, costs little. Probes run in
 * this process, but those that can block: each of them has a worker (probes/worker/worker.h), whose results
 * enter through the same handlers. A worker is killed at its timeout; one that cannot be killed is left
 * alone, and its probe does not run again before it is gone.
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "probe.h"
#include "worker.h"

#define SCHEDULE_PROBES_MAX 32

struct schedule_handlers {
        /* What probe number source said in its run number run. */
        void (*finding)(unsigned source, unsigned run, const struct finding *f, void *userdata);
        void (*sample)(unsigned source, unsigned run, const struct sample *m, void *userdata);
        /* The run is over: whole when the probe could look (else one UNKNOWN finding named after the probe
         * was handed over). True: the probe is to look again soon. */
        bool (*done)(unsigned source, unsigned run, bool whole, void *userdata);
};

struct schedule;
/*
 * probes: ended by NULL. worker: the program that runs the blocking ones. interval: for every probe, 0: each
 * one's own. h, c, handlers, worker are borrowed. All probes that do not block run once before this returns,
 * so that the host's state is known when the agent says it is ready; the others' workers are started.
 */
int schedule_new(sd_event *e, const struct probe *const *probes, const struct worker_program *worker,
                 usec_t interval, const struct host *h, const struct probe_context *c,
                 const struct schedule_handlers *handlers, void *userdata, struct schedule **ret);
struct schedule *schedule_free(struct schedule *s);
DEFINE_CLEANUP(struct schedule *, schedule_free)
/* Runs every probe now (the wanted values changed). */
void schedule_run_all(struct schedule *s);
/* Runs the probes that are due about now: for a caller whom something else has woken. */
void schedule_go_along(struct schedule *s);
/* For reload: see schedule_new(). In force from each probe's next run. */
void schedule_set_interval(struct schedule *s, usec_t interval);

/* interval, give or take a tenth by random (any 32 bits). */
usec_t schedule_jitter(usec_t interval, uint32_t random);
