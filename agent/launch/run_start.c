/* SPDX-License-Identifier: Apache-2.0 */
/* A start, the wait until the host is free for it, and the end that is followed by no other start. */
#include <assert.h>
#include <systemd/sd-id128.h>

#include "handover.h"
#include "log.h"
#include "loop_timer.h"
#include "image.h"
#include "run_words.h"
#include "secret.h"
#include "texts.h"

void run_undo(struct runs *r, struct run *run) {
        int k = 0;

        run_unlink(r, run);
        run_remove_files(r, run->kept->name, false);
        if (run->replaced) {
                k = kept_run_write(r->runs_fd, run->replaced);
                if (k < 0 || !run_insert(r, run->replaced))
                        (void) log_warning_errno(k, "run %s: what is known of the run before it is lost",
                                                 run->kept->name);
                else
                        run->replaced = NULL;
        }
        (void) run_free(run);
}

static int refuse_unwritten(const struct kept_run *kept, const char *directory, int error,
                            struct problem *p) {
        char remedy[128];

        (void) snprintf(remedy, sizeof(remedy), "see: df %s", directory);
        return problem_set(p, error, remedy, "run %s: %s cannot be written: %s", kept->name, directory,
                           strerror(-error));
}

/* Of a run in a container the engine is started, by root: of the run's variables it gets a file, and none as
 * its own. */
static int write_handover(struct runs *r, const struct kept_run *kept) {
        char *const environment[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" },
                                      (char[]){ "HOME=/root" }, NULL };
        _cleanup_(strings_freep) char **argv = NULL;
        int k;

        if (!kept_run_has_image(kept))
                return handover_write(r->handover_fd, kept->name, kept->uid, kept->directory, kept->argv,
                                      kept->env);
        k = request_image_argv(r->host, kept, &argv);
        if (k >= 0)
                k = handover_write_variables(r->handover_fd, kept->name, kept->env);
        return k < 0 ? k
                     : handover_write(r->handover_fd, kept->name, geteuid(), "/", argv, environment);
}

static int write_files(struct runs *r, const struct kept_run *kept, struct problem *p) {
        int k;

        k = kept_run_write(r->runs_fd, kept);
        if (k < 0)
                return refuse_unwritten(kept, STATE_RUNS, k, p);
        k = write_handover(r, kept);
        if (k < 0)
                return refuse_unwritten(kept, STATE_HANDOVER, k, p);
        if (!kept->secrets)
                secrets_remove(r->secrets_fd, kept->name); /* of a run before, which may be another user's */
        k = kept->secrets ? secrets_write(r->secrets_fd, kept->name, kept->secrets) : 0;
        return k < 0 ? refuse_unwritten(kept, STATE_SECRETS, k, p) : 0;
}

int run_ask_unit(struct runs *r, const struct kept_run *kept, bool beside) {
        _cleanup_(strings_freep) char **devices = devices_nodes(r->host, kept->spec);
        struct unit_spec spec = { .kept = kept,
                                  .devices = devices,
                                  .secrets = secrets_exist(r->secrets_fd, kept->name) };

        return beside ? r->units->beside(r->backend, &spec) : r->units->start(r->backend, &spec);
}

/* Gives the place of an ended run of this name to the new one. */
static int take_place(struct runs *r, struct kept_run *kept, struct run **ret, struct problem *p) {
        struct run *before = run_find(r, kept->name), *run;

        if (before && before->kept->state != LAUNCH_EXITED)
                return run_refuse_existing(before->kept, p);
        if (before && before->capture)
                return problem_set(p, -EBUSY, "choose another name",
                                   "a capture of the run %s before this one has not ended", kept->name);
        if (runs_count_active(r) >= RUNS_ACTIVE_MAX)
                return problem_set(p, -EBUSY, "stop one: tpuctl runs",
                                   "%d runs are active, which is the most", RUNS_ACTIVE_MAX);
        run = run_insert(r, kept);
        if (!run)
                return problem_set(p, -ENOMEM, "try again", "out of memory");
        if (before) {
                run->replaced = TAKE_PTR(before->kept);
                run_unlink(r, before);
                (void) run_free(before);
        }
        *ret = run;
        return 0;
}

int run_start_new(struct runs *r, struct kept_run *kept, struct problem *p) {
        struct run *run = NULL;
        int k;

        kept->state = LAUNCH_STARTING;
        kept->started_real = host_now_real(r->host);
        kept->started_boot = host_now(r->host);
        k = take_place(r, kept, &run, p);
        if (k < 0) {
                (void) kept_run_free(kept);
                return k;
        }
        k = write_files(r, kept, p);
        kept->secrets = secrets_free(kept->secrets);
        if (k >= 0) {
                k = run_ask_unit(r, kept, false);
                if (k == -ENOTCONN)
                        (void) problem_set(p, k, "try again; see: systemctl status dbus",
                                           "the system bus cannot be reached at this moment");
                else if (k < 0)
                        (void) problem_set(p, k, "see: journalctl -b -u tpu-launchd",
                                           "run %s: systemd cannot be asked: %s", kept->name, strerror(-k));
        }
        if (k < 0)
                run_undo(r, run);
        else
                run_remove_words(r, kept->name); /* of a run before, which may be another user's */
        return k;
}

void run_refuse_coming(struct run *run, int error, const struct problem *p) {
        struct kept_run *coming = TAKE_PTR(run->coming);

        log_warning("%s", p->text);
        run->owner->events->started(coming, error, p, run->owner->userdata);
        (void) kept_run_free(coming);
}

static void run_start_coming(struct run *run) {
        struct kept_run *coming = TAKE_PTR(run->coming), gone;
        struct runs *r = run->owner;
        struct problem p;
        int k;

        gone = (struct kept_run){ .generation = coming->generation };
        memcpy(gone.name, coming->name, sizeof(gone.name));
        k = run_start_new(r, coming, &p);
        if (k == 0)
                return;
        log_warning("%s", p.text);
        r->events->started(&gone, k, &p,
                           r->userdata); /* coming is gone: who waits knows it by name and generation */
}

#define LOOK_FIRST (20 * USEC_PER_MSEC) /* a slice is gone in a few milliseconds, as a rule */
#define LOOK_MAX USEC_PER_SEC

static int on_look_if_free(sd_event_source *s, uint64_t usec, void *userdata);
static void run_await_free_after(struct run *run, usec_t pause);

/* --- Over for good ------------------------------------------------------------------------------------- */

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

/* That it was given up holds over our own end, too: it is not restarted by who reads its files then. */
static void write_end(struct runs *r, struct kept_run *kept) {
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

        assert(kept->state != LAUNCH_EXITED); /* an end is reported once */
        kept->state = LAUNCH_EXITED;
        if (words[0])
                text_append(kept->end.why, sizeof(kept->end.why), "", "; %s", words);
        drop_environment(kept);
        if (words[0])
                write_end(r, kept);
        run_remove_handover(r, kept->name);
        secrets_remove(r->secrets_fd, kept->name);
        run_sweep(run);
        r->events->ended(kept, r->userdata);
        if (run->coming)
                run_await_free_after(run, 0);
}

/* --- The next start under its policy ------------------------------------------------------------------- */

static int write_next_start(struct runs *r, struct kept_run *kept) {
        sd_id128_t id;
        int k = sd_id128_randomize(&id);

        if (k < 0)
                return k;
        (void) sd_id128_to_string(id, kept->id);
        kept->started_real = host_now_real(r->host);
        kept->started_boot = host_now(r->host);
        return kept_run_write(r->runs_fd, kept);
}

static int run_start_again(struct run *run, struct problem *p) {
        struct runs *r = run->owner;
        struct kept_run *kept = run->kept;
        struct restarts before = kept->restarts;
        int k;

        kept->restarts = run->restart;
        k = write_next_start(r, kept);
        if (k >= 0)
                k = run_ask_unit(r, kept, false);
        if (k < 0) {
                kept->restarts = before;
                return problem_set(p, k, "see: journalctl -b -u tpu-launchd",
                                   "run %s: it cannot be restarted: %s", kept->name, strerror(-k));
        }
        kept->state = LAUNCH_STARTING;
        kept->preempted_real = 0;
        run->restarting = true;
        run->swept = false;
        return 0;
}

/* --- The wait ------------------------------------------------------------------------------------------ */

static int look_later(struct run *run, usec_t after) {
        int k;

        run->free_timer = sd_event_source_disable_unref(run->free_timer);
        k = loop_timer_new(run->owner->event, CLOCK_MONOTONIC, USEC_PER_MSEC, "wait-until-free",
                           on_look_if_free, run, &run->free_timer);
        return k < 0 ? k : loop_timer_in(run->free_timer, after);
}

int run_is_free(const struct run *run, const struct kept_run *wanted, struct problem *p) {
        pid_t left = run_left_over(run);

        if (left > 0)
                return problem_fill(
                        p,
                        problem_set(
                                p, -EBUSY,
                                "see: ps -o pid,stat,wchan:30,comm -p PID; in state D only a reboot ends it",
                                "run %s: process %d of the previous run is still there", wanted->name,
                                (int) left),
                        wanted->name, left);
        return devices_check(run->owner->host, wanted->spec, wanted->name, p, NULL, 0);
}

static bool look_again(struct run *run) {
        if (host_now(run->owner->host) >= run->free_deadline)
                return false;
        run->free_pause = MIN(run->free_pause * 2, LOOK_MAX);
        return look_later(run, run->free_pause) >= 0;
}

/* The run itself is due again. */
static void look_for_restart(struct run *run) {
        struct problem p;
        char words[sizeof(p.text) + 32];

        if ((run_is_free(run, run->kept, &p) >= 0 && run_start_again(run, &p) >= 0) || look_again(run))
                return;
        (void) snprintf(words, sizeof(words), "not restarted: %s", p.text);
        log_warning("run %s: %s", run->kept->name, words);
        run_finish(run, words);
}

static int on_look_if_free(sd_event_source *s, uint64_t usec, void *userdata) {
        struct run *run = userdata;
        struct problem p;
        int k;

        (void) s;
        (void) usec;
        run->free_timer = sd_event_source_disable_unref(run->free_timer);
        if (!run->coming) {
                if (run->kept->state == LAUNCH_WAITING)
                        look_for_restart(run);
                return 0;
        }
        k = run_is_free(run, run->coming, &p);
        if (k >= 0)
                run_start_coming(run);
        else if (!look_again(run))
                run_refuse_coming(run, k, &p);
        return 0;
}

static void run_await_free_after(struct run *run, usec_t pause) {
        struct problem p;
        int k;

        run->free_deadline = host_now(run->owner->host) + pause + FREE_TIMEOUT;
        run->free_pause = LOOK_FIRST;
        k = look_later(run, MAX(pause, LOOK_FIRST));
        if (k >= 0)
                return;
        (void) problem_set(&p, k, "try again", "run %s: no timer: %s", run->kept->name, strerror(-k));
        if (run->coming)
                run_refuse_coming(run, k, &p);
        else if (run->kept->state == LAUNCH_WAITING)
                run_finish(run, p.text);
}

bool run_retry_restart(struct run *run) {
        if (!run->restarting)
                return false;
        run->restarting = false;
        run->kept->state = LAUNCH_WAITING;
        if (!look_again(run))
                run_finish(run, "not restarted: systemd refuses it");
        return true;
}

/* --- Another start of its own, under its policy -------------------------------------------------------- */

void run_wait_for_restart(struct run *run, const struct restart_decision *d) {
        struct kept_run *kept = run->kept;
        usec_t now = host_now(run->owner->host), due = kept->end.boot + d->pause;

        kept->state = LAUNCH_WAITING;
        run->restart = d->next;
        text_append(kept->end.why, sizeof(kept->end.why), "", "; %s", d->words);
        log_notice("run %s: %s", kept->name, d->words);
        run_sweep(run);
        run_await_free_after(run, due > now && due - now <= d->pause ? due - now : 0);
}
