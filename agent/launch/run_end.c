/* SPDX-License-Identifier: Apache-2.0 */
/* How a run's end is judged, and what follows from it. */
#include "handover.h"
#include "log.h"
#include "run_table.h"
#include "secret.h"

/* Up to a megabyte each, and it may hold secrets: nobody needs it of a run that has ended. */
static void drop_environment(struct kept_run *kept) {
        for (size_t i = 0; kept->env && kept->env[i]; i++)
                free(TAKE_PTR(kept->env[i]));
}

/* Stops the slice of a run that has ended: what it left there (containers, for one) goes with it, and so
 * does the slice, which systemd would keep for good. */
void run_sweep(struct run *run) {
        struct runs *r = run->owner;

        if (!run->swept && r->units && r->units->stop(r->backend, run->kept->name) == 0)
                run->swept = true;
}

static bool is_rebooted(const struct runs *r, const struct kept_run *kept) {
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

static void judge(struct run *run, const struct tail_result *tail, struct cause_found *ret) {
        struct runs *r = run->owner;
        struct kept_run *j = run->kept;
        struct evidence e = { .record = &j->end,
                              .rebooted = is_rebooted(r, j),
                              .stop_asked = j->stop_asked,
                              .preempted = j->preempted_real > 0,
                              .unkillable = run->unkillable,
                              .hints = j->hints,
                              .hint_text = (const char(*)[CAUSE_TEXT_MAX]) j->hint_text,
                              .checkpoint = tail->checkpoint,
                              .checkpoint_step = tail->checkpoint_step,
                              .log = tail->sign };
        int k;

        if (j->end.cause[0] && cause_parse(j->end.cause, &ret->cause) == 0)
                return; /* judged before our own end */
        cause_of(&e, ret);
        (void) snprintf(j->end.cause, sizeof(j->end.cause), "%s", cause_name(ret->cause));
        (void) snprintf(j->end.why, sizeof(j->end.why), "%s", ret->why);
        (void) snprintf(j->end.remedy, sizeof(j->end.remedy), "%s", ret->remedy);
        remedy_fill(j->end.remedy, sizeof(j->end.remedy), j->name, run->unkillable);
        j->end.step_known = tail->step_known;
        j->end.last_step = tail->last_step;
        if (streq(j->end.result, "unknown"))
                return; /* its own record may yet come */
        k = exit_record_write(r->exits_fd, j->name, &j->end);
        if (k < 0)
                (void) log_warning_errno(k, "run %s: why it ended cannot be written down: %m", j->name);
}

/* That it was given up holds over our own end, too: it is not started again by who reads its files then. */
static void keep_end(struct runs *r, struct kept_run *kept) {
        int k;

        kept->stop_asked = true;
        k = kept_run_write(r->runs_fd, kept);
        if (k >= 0)
                k = exit_record_write(r->exits_fd, kept->name, &kept->end);
        if (k < 0)
                (void) log_warning_errno(
                        k, "run %s: that it is not started again cannot be written down: %m", kept->name);
}

/* It is over for good. */
void run_finish(struct run *run, const char *words) {
        struct runs *r = run->owner;
        struct kept_run *j = run->kept;
        size_t n = strlen(j->end.why);

        j->state = LAUNCH_EXITED;
        if (words[0])
                (void) snprintf(j->end.why + n, sizeof(j->end.why) - n, "; %s", words);
        drop_environment(j);
        if (words[0])
                keep_end(r, j);
        run_remove_handover(r, j->name);
        secrets_remove(r->secrets_fd, j->name);
        run_sweep(run);
        r->events->ended(j, r->userdata);
        run_await_free(run);
}

static void tell_failed_start(struct run *run) {
        struct runs *r = run->owner;
        struct problem p;
        int k = problem_set(&p, -EIO, "see: journalctl -b -u tpu-run-NAME.service",
                            "run %s ended before it was seen to run: %s (%s)", run->kept->name,
                            run->kept->end.cause, run->kept->end.why);

        (void) problem_fill(&p, k, run->kept->name, 0);
        r->events->started(run->kept, k, &p, r->userdata);
}

static void conclude(struct run *run, const struct tail_result *tail) {
        struct kept_run *j = run->kept;
        bool was_starting = j->state == LAUNCH_STARTING;
        struct restart_decision d = { .again = false };
        struct cause_found found = { .why = "" };

        j->ending = false;
        judge(run, tail, &found);
        log_full(found.cause == CAUSE_SUCCESS || found.cause == CAUSE_STOPPED ? LOG_NOTICE : LOG_WARNING, 0,
                 "run %s ended: %s (%s)", j->name, j->end.cause, j->end.why);
        if (!j->stop_asked && !run->coming)
                restart_decide(&j->restarts, j->spec->restarts, &j->end, found.cause,
                               j->end.boot > j->started_boot ? j->end.boot - j->started_boot : 0, &d);
        if (is_rebooted(run->owner, j))
                d.again = false;
        if (was_starting) /* nobody who waits for a start is left without an answer */
                tell_failed_start(run);
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
        conclude(run, t);
}

void run_ended(struct run *run) {
        struct runs *r = run->owner;
        struct kept_run *j = run->kept;
        struct tail_of of = { .name = j->name, .id = j->id, .started_real = j->started_real,
                              .preempted_real = j->preempted_real };
        struct tail_result none;
        int k;

        if (run->tail || j->state == LAUNCH_EXITED || j->state == LAUNCH_WAITING)
                return;
        adopt_record(r, j);
        j->main_pid = 0;
        run->kill_timer = sd_event_source_disable_unref(run->kill_timer);
        run->stuck_timer = sd_event_source_disable_unref(run->stuck_timer);
        tail_init(&none);
        of.failed = !streq(j->end.result, "success");
        if (!r->journal || j->end.cause[0] || is_rebooted(r, j)) {
                conclude(run, &none);
                return;
        }
        k = tail_new(r->event, &of, on_tail, run, &run->tail);
        j->ending = k >= 0;
        if (k < 0)
                on_tail(&none, k, run);
}
