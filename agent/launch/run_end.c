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
        struct kept_run *kept = run->kept;
        struct evidence e = { .record = &kept->end,
                              .rebooted = is_rebooted(r, kept),
                              .stop_asked = kept->stop_asked,
                              .preempted = kept->preempted_real > 0,
                              .unkillable = run->unkillable,
                              .hints = kept->hints,
                              .hint_text = (const char(*)[CAUSE_TEXT_MAX]) kept->hint_text,
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
        kept->end.step_known = tail->step_known;
        kept->end.last_step = tail->last_step;
        if (streq(kept->end.result, "unknown"))
                return; /* its own record may yet come */
        k = exit_record_write(r->exits_fd, kept->name, &kept->end);
        if (k < 0)
                (void) log_warning_errno(k, "run %s: why it ended cannot be written down: %m", kept->name);
}

/* That it was given up holds over our own end, too: it is not restarted by who reads its files then. */
static void keep_end(struct runs *r, struct kept_run *kept) {
        int k;

        kept->stop_asked = true;
        k = kept_run_write(r->runs_fd, kept);
        if (k >= 0)
                k = exit_record_write(r->exits_fd, kept->name, &kept->end);
        if (k < 0)
                (void) log_warning_errno(
                        k, "run %s: that it is not restarted cannot be written down: %m", kept->name);
}

/* It is over for good. */
void run_finish(struct run *run, const char *words) {
        struct runs *r = run->owner;
        struct kept_run *kept = run->kept;
        size_t n = strlen(kept->end.why);

        kept->state = LAUNCH_EXITED;
        if (words[0])
                (void) snprintf(kept->end.why + n, sizeof(kept->end.why) - n, "; %s", words);
        drop_environment(kept);
        if (words[0])
                keep_end(r, kept);
        run_remove_handover(r, kept->name);
        secrets_remove(r->secrets_fd, kept->name);
        run_sweep(run);
        r->events->ended(kept, r->userdata);
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
        struct kept_run *kept = run->kept;
        bool was_starting = kept->state == LAUNCH_STARTING;
        struct restart_decision d = { .again = false };
        struct cause_found found = { .why = "" };

        kept->ending = false;
        judge(run, tail, &found);
        log_full(found.cause == CAUSE_SUCCESS || found.cause == CAUSE_STOPPED ? LOG_NOTICE : LOG_WARNING, 0,
                 "run %s ended: %s (%s)", kept->name, kept->end.cause, kept->end.why);
        if (!kept->stop_asked && !run->coming)
                restart_decide(&kept->restarts, kept->spec->restarts, &kept->end, found.cause,
                               kept->end.boot > kept->started_boot ? kept->end.boot - kept->started_boot : 0,
                               &d);
        if (is_rebooted(run->owner, kept))
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
        struct kept_run *kept = run->kept;
        struct tail_of of = { .name = kept->name, .id = kept->id, .started_real = kept->started_real,
                              .preempted_real = kept->preempted_real };
        struct tail_result none;
        int k;

        if (run->tail || kept->state == LAUNCH_EXITED || kept->state == LAUNCH_WAITING)
                return;
        adopt_record(r, kept);
        kept->main_pid = 0;
        run->kill_timer = sd_event_source_disable_unref(run->kill_timer);
        run->stuck_timer = sd_event_source_disable_unref(run->stuck_timer);
        tail_init(&none);
        of.failed = !streq(kept->end.result, "success");
        if (!r->journal || kept->end.cause[0] || is_rebooted(r, kept)) {
                conclude(run, &none);
                return;
        }
        k = tail_new(r->event, &of, on_tail, run, &run->tail);
        kept->ending = k >= 0;
        if (k < 0)
                on_tail(&none, k, run);
}
