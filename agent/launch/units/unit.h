/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The unit of a run, as PID 1 sees it: a transient service in a slice of its own, asked for over the system
 * bus. Nothing here blocks: each call returns whether the question was sent, and the answer comes as an
 * event. A run's unit is not ours: it goes on when we, the bus or its daemon die.
 *
 * What was learnt by trying: JobRemoved is subscribed before the start is asked for; a run's own rule for
 * UnitRemoved names the unit, so that other units' comings and goings do not wake us; what is asked for is
 * written into a unit file and read again at each daemon-reload, so that no text of a user's is in it
 * (handover.h).
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "kept_run.h"

/* Of the unit that beside() starts: not tpu-run-…, which is a run's. */
#define PREEMPT_UNIT_PREFIX "tpu-preempt-"

struct unit_spec {
        const struct kept_run *kept;
        char *const *devices; /* nodes that the run may open, by path; NULL: none are known */
        bool secrets; /* there is a file of them: secret.h */
};

/* All of them by the name of the run; texts are borrowed. */
struct unit_events {
        /* No unit was made: -EEXIST when there is one of this name, -EIO with systemd's own words, -ENOTCONN
         * when the bus was lost before the answer (then it is not known whether a unit was made, and query()
         * reports later). */
        void (*refused)(const char *name, int error, const char *text, void *userdata);
        /* systemd ended the start: "done", else "failed", "timeout", … */
        void (*started)(const char *name, const char *result, void *userdata);
        void (*running)(const char *name, uint32_t main_pid, const char *control_group, void *userdata);
        /* The unit is not active any more, or not there. Its recorder has ended. */
        void (*gone)(const char *name, void *userdata);
        /* The bus came (back): ask for all runs again. */
        void (*connected)(void *userdata);
};

/* What runs units: systemd's (unit_bus.c), or a test's. Each returns 0 or -errno (-ENOTCONN: no bus at
 * this moment). */
struct unit_backend {
        int (*start)(void *backend, const struct unit_spec *s);
        /* TERM to all of the slice, KILL after the run's own grace */
        int (*stop)(void *backend, const char *name);
        int (*signal)(void *backend, const char *name, int number); /* to the run's main process */
        /* The command of the handover NAME.preempt as the run's user, beside the run in its slice; nothing
         * hears of it but the log */
        int (*beside)(void *backend, const struct unit_spec *s);
        int (*query)(void *backend, const char *name); /* answered by running or gone */
};

extern const struct unit_backend unit_bus_backend;

struct unit_bus;
/* Not connected yet: all that is asked of it is -ENOTCONN until then. */
int unit_bus_new(sd_event *e, const struct unit_events *events, void *userdata, struct unit_bus **ret);
struct unit_bus *unit_bus_free(struct unit_bus *u);
DEFINE_CLEANUP(struct unit_bus *, unit_bus_free)
/* A bus that cannot be reached is logged and tried again: a host without its bus for a moment still answers
 * questions. */
void unit_bus_connect(struct unit_bus *u);
/* Whether systemd has answered on the bus, so that units can be started and asked about. */
bool unit_bus_is_connected(const struct unit_bus *u);
