/* SPDX-License-Identifier: Apache-2.0 */
#include "run_table.h"

static int on_kill(sd_event_source *s, uint64_t usec, void *userdata) {
        struct run *run = userdata;

        (void) s;
        (void) usec;
        run->kill_timer = sd_event_source_disable_unref(run->kill_timer);
        /* without a bus, systemd's own timeout kills */
        (void) run->owner->units->kill(run->owner->backend, run->job->name);
        return 0;
}

static int kill_later(struct run *run, usec_t grace) {
        int k;

        run->kill_timer = sd_event_source_disable_unref(run->kill_timer);
        if (grace == 0 || grace == run->job->spec.grace)
                return 0; /* systemd's own timer */
        k = sd_event_add_time_relative(run->owner->event, &run->kill_timer, CLOCK_MONOTONIC, grace,
                                       10 * USEC_PER_MSEC, on_kill, run);
        if (k < 0)
                return k;
        (void) sd_event_source_set_description(run->kill_timer, "stop-grace");
        return 0;
}

int run_stop(struct run *run, usec_t grace, struct problem *p) {
        struct runs *r = run->owner;
        const char *name = run->job->name;
        int k;

        if (grace > run->job->spec.grace)
                return problem_set(p, -ERANGE, "give less, or start it with a longer grace",
                                   "run %s has a grace of %u s: a longer one is not possible", name,
                                   (unsigned) (run->job->spec.grace / USEC_PER_SEC));
        k = r->units->stop(r->backend, name);
        if (k < 0)
                return problem_set(p, k, "try again; see: systemctl status dbus",
                                   "run %s: systemd cannot be asked to stop it: %s", name, strerror(-k));
        k = kill_later(run, grace);
        if (k < 0)
                return problem_set(p, k, "try again", "run %s: no timer for its grace: %s", name,
                                   strerror(-k));
        return 0;
}

/* What waits for this run's end is not started any more. */
static void drop_next(struct run *run, uint64_t generation) {
        struct problem p;
        int error;

        if (!run->coming || (generation > 0 && run->coming->spec.generation > generation))
                return;
        error = problem_set(&p, -ECANCELED, "start it anew", "run %s was stopped before its generation %" PRIu64 " began",
                            run->job->name, run->coming->spec.generation);
        run_refuse_coming(run, error, &p);
}

int runs_stop(struct runs *r, const char *name, uint64_t generation, usec_t grace, struct problem *p) {
        struct run *run = run_find(r, name);

        if (!run)
                return no_such_run(name, p);
        if (generation > 0 && run->job->spec.generation > generation)
                return problem_set(p, -ESTALE, "see: tpuctl jobs",
                                   "run %s is of generation %" PRIu64 ", which is later than %" PRIu64, name,
                                   run->job->spec.generation, generation);
        drop_next(run, generation);
        if (run->job->state == JOB_EXITED)
                return problem_set(p, -EALREADY, "see: tpuctl jobs", "run %s has ended already (%s)", name,
                                   run->job->end.result);
        return run_stop(run, grace, p);
}
