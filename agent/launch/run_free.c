/* SPDX-License-Identifier: Apache-2.0 */
/* Between the end of a run and the next start under its name: its slice is empty, and the devices are free. */
#include "cgroup.h"
#include "log.h"
#include "run_table.h"

#define LOOK_FIRST (20 * USEC_PER_MSEC) /* a slice is gone in a few milliseconds, as a rule */
#define LOOK_MAX USEC_PER_SEC
/* Slurm's UnkillableStepTimeout: what KILL has not ended by then is in state D, and no wait helps. */
#define FREE_TIMEOUT (60 * USEC_PER_SEC)

static int on_look(sd_event_source *s, uint64_t usec, void *userdata);

static int look_later(struct run *run, usec_t after) {
        int k;

        run->free_timer = sd_event_source_disable_unref(run->free_timer);
        k = sd_event_add_time_relative(run->owner->event, &run->free_timer, CLOCK_MONOTONIC, after, USEC_PER_MSEC,
                                       on_look, run);
        if (k < 0)
                return k;
        (void) sd_event_source_set_description(run->free_timer, "wait-until-free");
        return 0;
}

/* The first process that is left of the run. 0: none. */
static pid_t left_over(const struct run *run) {
        _cleanup_free_ struct pid_list *pids = malloc(sizeof(*pids));

        if (!pids || !run->job->control_group || cgroup_pids(run->owner->host, run->job->control_group, pids) < 0)
                return 0;
        return pids->n > 0 ? pids->pids[0] : 0;
}

int run_is_free(struct run *run, const struct job *wanted, struct problem *p) {
        pid_t left = left_over(run);

        if (left > 0)
                return problem_set(p, -EBUSY, "see: ps -o pid,stat,wchan:30,comm -p PID; in state D only a reboot ends it",
                                   "run %s: process %d of the run before it is still there", wanted->name, (int) left);
        return devices_check(run->owner->host, &wanted->spec, wanted->name, p, NULL, 0);
}

static int on_look(sd_event_source *s, uint64_t usec, void *userdata) {
        struct run *run = userdata;
        struct problem p;
        int k;

        (void) s;
        (void) usec;
        run->free_timer = sd_event_source_disable_unref(run->free_timer);
        if (!run->coming)
                return 0;
        k = run_is_free(run, run->coming, &p);
        if (k < 0 && host_now(run->owner->host) < run->free_deadline) {
                run->free_pause = MIN(run->free_pause * 2, LOOK_MAX);
                if (look_later(run, run->free_pause) >= 0)
                        return 0;
        }
        if (k < 0)
                run_refuse_coming(run, k, &p);
        else
                run_start_coming(run);
        return 0;
}

void run_await_free(struct run *run) {
        struct problem p;
        int k;

        if (!run->coming)
                return;
        run->free_deadline = host_now(run->owner->host) + FREE_TIMEOUT;
        run->free_pause = LOOK_FIRST;
        k = look_later(run, LOOK_FIRST);
        if (k < 0)
                run_refuse_coming(run, problem_set(&p, k, "try again", "run %s: no timer: %s", run->job->name, strerror(-k)),
                                  &p);
}
