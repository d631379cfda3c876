/* SPDX-License-Identifier: Apache-2.0 */
/* How a run's end is judged, and what follows from it. */
#include "adopted.h"
#include "handover.h"
#include "log.h"
#include "loop_timer.h"
#include "run_words.h"

static bool was_rebooted(const struct runs *r, const struct kept_run *kept) {
        char boot_id[BOOT_ID_MAX] = "";

        (void) host_boot_id(r->host, boot_id);
        return !streq(kept->boot_id, boot_id);
}

/* Takes the record of this very start. Without one its result is unknown, and never a success. */
static void adopt_record(struct runs *r, struct kept_run *kept) {
        int k = exit_record_read(r->exits_fd, kept->name, kept->id, &kept->end);

        if (k == 0)
                return;
        if (k != -ENOENT)
                (void) log_warning_errno(k, "run %s: its exit record cannot be read: %m", kept->name);
        kept->end = (struct exit_record){ .real = host_now_real(r->host), .boot = host_now(r->host) };
        (void) snprintf(kept->end.id, sizeof(kept->end.id), "%s", kept->id);
        (void) snprintf(kept->end.result, sizeof(kept->end.result), "unknown");
}

static void judge_end(struct run *run, const struct tail_result *tail, struct cause_found *ret) {
        struct runs *r = run->owner;
        struct kept_run *kept = run->kept;
        struct end_evidence e = { .record = &kept->end,
                                  .rebooted = was_rebooted(r, kept),
                                  .container = kept_run_has_image(kept),
                                  .stop_asked = kept->stop_asked,
                                  .preempted = kept->preempted_real > 0,
                                  .unkillable = run->unkillable,
                                  .checkpoint = tail->checkpoint,
                                  .checkpoint_step = tail->checkpoint_step,
                                  .log = tail->sign };
        int k;

        if (kept->end.cause[0] && cause_parse(kept->end.cause, &ret->cause) == 0)
                return; /* judged before our own end */
        cause_of(&e, ret);
        (void) snprintf(kept->end.cause, sizeof(kept->end.cause), "%s", cause_name(ret->cause));
        (void) snprintf(kept->end.why, sizeof(kept->end.why), "%s", ret->why);
        (void) snprintf(kept->end.remedy, sizeof(kept->end.remedy), "%s", ret->remedy);
        remedy_fill(kept->end.remedy, sizeof(kept->end.remedy), kept->name, run->unkillable);
        if (ret->cause == CAUSE_PEER_LOST)
                (void) snprintf(kept->end.lost_peer, sizeof(kept->end.lost_peer), "%s", tail->lost_peer);
        kept->end.step_known = tail->step_known;
        kept->end.last_step = tail->last_step;
        if (streq(kept->end.result, "unknown"))
                return; /* its own record may yet come */
        k = exit_record_write(r->exits_fd, kept->name, &kept->end);
        if (k < 0)
                (void) log_warning_errno(k, "run %s: why it ended cannot be written down: %m", kept->name);
}

/* It ended before systemd saw it run. It did run when its command was executed: nobody who waits for the
 * start hears of its end instead, however short it was. */
static void report_short_start(struct run *run, enum cause cause) {
        struct runs *r = run->owner;
        struct problem p;
        int k;

        if (cause != CAUSE_NOT_STARTED && !streq(run->kept->end.result, "unknown")) {
                run->kept->state = LAUNCH_RUNNING;
                r->events->started(run->kept, 0, NULL, r->userdata);
                return;
        }
        k = problem_set(&p, -EIO, "see: journalctl -b -u tpu-run-NAME.service",
                        "run %s did not start: %s (%s)", run->kept->name, run->kept->end.cause,
                        run->kept->end.why);

        (void) problem_fill(&p, k, run->kept->name, 0);
        r->events->started(run->kept, k, &p, r->userdata);
}

static void conclude_run(struct run *run, const struct tail_result *tail) {
        struct kept_run *kept = run->kept;
        bool was_starting = kept->state == LAUNCH_STARTING, judged = kept->end.cause[0];
        struct restart_decision d = { .again = false };
        struct cause_found found = { .why = "" };

        kept->ending = false;
        judge_end(run, tail, &found);
        if (!judged)
                run_keep_words(run);
        log_full(found.cause == CAUSE_SUCCESS || found.cause == CAUSE_STOPPED ? LOG_NOTICE : LOG_WARNING, 0,
                 "run %s ended: %s (%s)", kept->name, kept->end.cause, kept->end.why);
        if (!kept->stop_asked && !run->coming)
                restart_decide(&kept->restarts, kept->spec->restarts, &kept->end, found.cause,
                               kept->end.boot > kept->started_boot ? kept->end.boot - kept->started_boot : 0,
                               &d);
        if (was_rebooted(run->owner, kept))
                d.again = false;
        if (was_starting)
                report_short_start(run, found.cause);
        if (d.again)
                run_wait_for_restart(run, &d);
        else
                run_finish(run, d.words);
}

static void on_tail(const struct tail_result *t, int error, void *userdata) {
        struct run *run = userdata;

        if (error < 0)
                (void) log_warning_errno(
                        error,
                        "run %s: its last lines cannot be read, why it ended follows from its exit "
                        "alone: %m",
                        run->kept->name);
        run->tail = tail_free(run->tail);
        conclude_run(run, t);
}

void run_ended(struct run *run) {
        struct runs *r = run->owner;
        struct kept_run *kept = run->kept;
        struct tail_of of = { .name = kept->name, .id = kept->id, .started_real = kept->started_real,
                              .preempted_real = kept->preempted_real };
        struct tail_result none;
        int k;

        if (run->tail || kept->state == LAUNCH_EXITED || kept->state == LAUNCH_WAITING)
                return;
        adopt_record(r, kept);
        run->crashed = streq(kept->end.result, "core-dump") ? kept->main_pid : 0;
        kept->main_pid = 0;
        run->stuck_timer = sd_event_source_disable_unref(run->stuck_timer);
        tail_init(&none);
        of.failed = !streq(kept->end.result, "success");
        if (!r->journal || kept->end.cause[0] || was_rebooted(r, kept)) {
                conclude_run(run, &none);
                return;
        }
        k = tail_new(r->event, &of, on_tail, run, &run->tail);
        kept->ending = k >= 0;
        if (k < 0)
                on_tail(&none, k, run);
}

/* KILL was sent, by us or by systemd, and something is still there. It will not go by waiting. */
static void give_up_run(struct run *run) {
        run->stuck_timer = sd_event_source_disable_unref(run->stuck_timer);
        run->unkillable = (int32_t) run_left_over(run);
        if (run->unkillable > 0)
                run_ended(run);
        else /* it is gone, and nothing was reported */
                (void) run->owner->units->query(run->owner->backend, run->kept->name);
}

static int on_stuck(sd_event_source *s, uint64_t usec, void *userdata) {
        (void) s;
        (void) usec;
        give_up_run(userdata);
        return 0;
}

void runs_give_up(struct runs *r, const char *name) {
        struct run *run = run_find(r, name);

        if (run)
                give_up_run(run);
}

/* systemd's own timer kills. */
static int look_for_the_stuck(struct run *run) {
        int k;

        run->stuck_timer = sd_event_source_disable_unref(run->stuck_timer);
        k = loop_timer_new(run->owner->event, CLOCK_MONOTONIC, USEC_PER_SEC, "unkillable", on_stuck, run,
                           &run->stuck_timer);
        return k < 0 ? k : loop_timer_in(run->stuck_timer, run->kept->spec->grace + FREE_TIMEOUT);
}

int run_stop(struct run *run, struct problem *p) {
        struct runs *r = run->owner;
        const char *name = run->kept->name;
        int k;

        k = r->units->stop(r->backend, name);
        if (k < 0)
                return problem_set(p, k, "try again; see: systemctl status dbus",
                                   "run %s: systemd cannot be asked to stop it: %s", name, strerror(-k));
        run->kept->stop_asked = true;
        k = look_for_the_stuck(run);
        if (k < 0)
                return problem_set(p, k, "try again", "run %s: no timer for its grace: %s", name,
                                   strerror(-k));
        return 0;
}

/* What waits for this run's end is not started any more. */
static void drop_coming(struct run *run, uint64_t generation) {
        struct problem p;
        int error;

        if (!run->coming || (generation > 0 && run->coming->generation > generation))
                return;
        error = problem_set(&p, -ECANCELED, "start it again",
                            "run %s was stopped before its generation %" PRIu64 " began", run->kept->name,
                            run->coming->generation);
        run_refuse_coming(run, error, &p);
}

/* It is not to be restarted, whatever becomes of us now. */
static int note_stop(struct run *run, struct problem *p) {
        int k;

        if (run->kept->stop_asked)
                return 0;
        run->kept->stop_asked = true;
        k = run->kept->spec->restarts > 0 ? kept_run_write(run->owner->runs_fd, run->kept) : 0;
        if (k < 0)
                run->kept->stop_asked = false;
        return k < 0 ? problem_set(p, k, "see: df " PATH_LAUNCHD_STATE,
                                   "run %s: that it is stopped cannot be written down: %s", run->kept->name,
                                   strerror(-k))
                     : 0;
}

int runs_stop(struct runs *r, const char *name, uint64_t generation, struct problem *p) {
        struct run *run = run_find(r, name);
        int k;

        if (!run)
                return no_such_run(r, name, p);
        if (run->kept->held)
                return adopted_refuse_stop(run->kept, p);
        if (generation > 0 && run->kept->generation > generation)
                return run_refuse_stale(run->kept, generation, p);
        drop_coming(run, generation);
        if (run->kept->state == LAUNCH_EXITED)
                return problem_set(p, -EALREADY, "see: tpuctl runs", "run %s has ended already (%s)", name,
                                   run->kept->end.cause);
        k = note_stop(run, p);
        if (k < 0)
                return k;
        if (run->kept->state != LAUNCH_WAITING)
                return run_stop(run, p);
        run->free_timer = sd_event_source_disable_unref(run->free_timer);
        run_finish(run, "then it was stopped");
        return 1;
}

/* --- A preemption -------------------------------------------------------------------------------------- */

static int send_signal(struct run *run, char *done, size_t size, struct problem *p) {
        struct runs *r = run->owner;
        const char *signal = run->kept->spec->preempt;
        int k = r->units->signal(r->backend, run->kept->name, run_signal_number(signal));

        if (k < 0)
                return problem_set(p, k, "try again; see: systemctl status dbus",
                                   "run %s: it cannot be sent %s: %s", run->kept->name,
                                   signal, strerror(-k));
        (void) snprintf(done, size, "%s to process %u", signal, run->kept->main_pid);
        return 0;
}

static int start_command(struct run *run, char *done, size_t size, struct problem *p) {
        const struct kept_run *kept = run->kept;
        struct runs *r = run->owner;
        char handover[RUN_NAME_MAX + 16], shell[] = "/bin/sh", option[] = "-c";
        char *const argv[] = { shell, option, kept->spec->preempt, NULL };
        int k;

        (void) snprintf(handover, sizeof(handover), "%s%s", kept->name, HANDOVER_PREEMPT);
        k = handover_write(r->handover_fd, handover, kept->uid, kept->directory, argv, kept->env);
        if (k >= 0)
                k = run_ask_unit(r, kept, true);
        if (k < 0)
                return problem_set(p, k, "see: journalctl -b -u tpu-launchd",
                                   "run %s: its command for a preemption cannot be started: %s", kept->name,
                                   strerror(-k));
        (void) snprintf(done, size, "its command as %s%s.service", PREEMPT_UNIT_PREFIX, kept->name);
        return 0;
}

int runs_signal(struct runs *r, const char *name, uint64_t generation, char *ret_done, size_t size,
                struct problem *p) {
        struct run *run = run_find(r, name);
        struct kept_run *kept;
        int k;

        if (!run)
                return no_such_run(r, name, p);
        kept = run->kept;
        if (generation > 0 && kept->generation > generation)
                return run_refuse_stale(kept, generation, p);
        if (kept->state == LAUNCH_EXITED)
                return problem_set(p, -ESRCH, "see: tpuctl runs", "run %s has ended", name);
        if (kept->held) { /* it is its owner's alone; but how it ends is known from here on */
                kept->preempted_real = host_now_real(r->host);
                (void) snprintf(ret_done, size, "nothing: user %.40s started it without tpu-launchd",
                                kept->user);
                return 0;
        }
        if (streq(kept->spec->preempt, "none"))
                return problem_set(p, -ENOTSUP, "start it with tpuctl run --preempt TERM",
                                   "run %s does not say how it is notified of a preemption", name);
        k = kept->spec->preempt[0] == '/' ? start_command(run, ret_done, size, p)
                                 : send_signal(run, ret_done, size, p);
        if (k < 0)
                return k;
        if (kept->preempted_real != 0)
                return 0;
        kept->preempted_real = host_now_real(r->host);
        k = kept_run_write(r->runs_fd, kept);
        if (k < 0) /* it was notified; only the cause of its end may be less exact after our own end */
                (void) log_warning_errno(
                        k, "run %s: its notice of a preemption cannot be written down: %m", name);
        return 0;
}
