/* SPDX-License-Identifier: Apache-2.0 */
#include "run_table.h"

/* KILL was sent, by us or by systemd, and something is still there. It will not go by waiting. */
static void give_up(struct run *run) {
        run->stuck_timer = sd_event_source_disable_unref(run->stuck_timer);
        run->unkillable = (int32_t) run_left_over(run);
        if (run->unkillable > 0)
                run_ended(run);
        else /* it is gone, and we were not told */
                (void) run->owner->units->query(run->owner->backend, run->job->name);
}

static int on_stuck(sd_event_source *s, uint64_t usec, void *userdata) {
        (void) s;
        (void) usec;
        give_up(userdata);
        return 0;
}

void runs_give_up(struct runs *r, const char *name) {
        struct run *run = run_find(r, name);

        if (run)
                give_up(run);
}

static int on_kill(sd_event_source *s, uint64_t usec, void *userdata) {
        struct run *run = userdata;

        (void) s;
        (void) usec;
        run->kill_timer = sd_event_source_disable_unref(run->kill_timer);
        /* without a bus, systemd's own timeout kills */
        (void) run->owner->units->kill(run->owner->backend, run->job->name);
        return 0;
}

static int add_timer(struct run *run, usec_t after, sd_event_time_handler_t handler, const char *name,
                     sd_event_source **ret) {
        int k;

        *ret = sd_event_source_disable_unref(*ret);
        k = sd_event_add_time_relative(run->owner->event, ret, CLOCK_MONOTONIC, after, 10 * USEC_PER_MSEC,
                                       handler, run);
        if (k < 0)
                return k;
        (void) sd_event_source_set_description(*ret, name);
        return 0;
}

static int kill_later(struct run *run, usec_t grace) {
        bool own = grace == 0 || grace == run->job->spec.grace; /* systemd's own timer kills */
        int k = own ? 0 : add_timer(run, grace, on_kill, "stop-grace", &run->kill_timer);

        if (own)
                grace = run->job->spec.grace;
        return k < 0 ? k : add_timer(run, grace + FREE_TIMEOUT, on_stuck, "unkillable", &run->stuck_timer);
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
        run->job->stop_asked = true;
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
        error = problem_set(&p, -ECANCELED, "start it anew",
                            "run %s was stopped before its generation %" PRIu64 " began", run->job->name,
                            run->coming->spec.generation);
        run_refuse_coming(run, error, &p);
}

/* It is not to be started again, whatever becomes of us now. */
static int note_stop(struct run *run, struct problem *p) {
        int k;

        if (run->job->stop_asked)
                return 0;
        run->job->stop_asked = true;
        k = run->job->spec.restarts > 0 ? job_write(run->owner->jobs_fd, run->job) : 0;
        return k < 0 ? problem_set(p, k, "see: df " PATH_LAUNCHD_STATE,
                                   "run %s: that it is stopped cannot be written down: %s", run->job->name,
                                   strerror(-k))
                     : 0;
}

int runs_stop(struct runs *r, const char *name, uint64_t generation, usec_t grace, struct problem *p) {
        struct run *run = run_find(r, name);
        int k;

        if (!run)
                return no_such_run(name, p);
        if (generation > 0 && run->job->spec.generation > generation)
                return problem_set(p, -ESTALE, "see: tpuctl jobs",
                                   "run %s is of generation %" PRIu64 ", which is later than %" PRIu64, name,
                                   run->job->spec.generation, generation);
        drop_next(run, generation);
        if (run->job->state == JOB_EXITED)
                return problem_set(p, -EALREADY, "see: tpuctl jobs", "run %s has ended already (%s)", name,
                                   run->job->end.cause);
        k = note_stop(run, p);
        if (k < 0)
                return k;
        if (run->job->state != JOB_WAITING)
                return run_stop(run, grace, p);
        run->free_timer = sd_event_source_disable_unref(run->free_timer);
        run_finish(run, "then it was stopped");
        return 1;
}
