/* SPDX-License-Identifier: Apache-2.0 */
#include <systemd/sd-id128.h>

#include "handover.h"
#include "log.h"
#include "run_table.h"
#include "secret.h"

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

/* What keeps it from beginning; what could not be looked at, or does not hold, is in its warning. */
static int check_devices(struct runs *r, struct kept_run *kept, struct problem *p) {
        int k = devices_check(r->host, kept->spec, kept->name, p, kept->warning, sizeof(kept->warning));

        if (k >= 0)
                device_policy_warn(r->host, kept->spec, kept->warning, sizeof(kept->warning));
        return k;
}

static void pick_name(const struct runs *r, struct kept_run *kept) {
        unsigned n, last = 0;
        char rest;

        for (const struct run *run = r->list; run; run = run->next)
                if (sscanf(run->kept->name, "run-%u%c", &n, &rest) == 1 && n > last && n < UINT32_MAX)
                        last = n;
        (void) snprintf(kept->name, sizeof(kept->name), "run-%u", last + 1);
}

static int refuse_unwritten(const struct kept_run *kept, const char *directory, int error,
                            struct problem *p) {
        char remedy[128];

        (void) snprintf(remedy, sizeof(remedy), "see: df %s", directory);
        return problem_set(p, error, remedy, "run %s: %s cannot be written: %s", kept->name, directory,
                           strerror(-error));
}

static int write_files(struct runs *r, const struct kept_run *kept, struct problem *p) {
        int k;

        k = kept_run_write(r->runs_fd, kept);
        if (k < 0)
                return refuse_unwritten(kept, STATE_RUNS, k, p);
        k = handover_write(r->handover_fd, kept->name, kept->uid, kept->directory, kept->argv, kept->env);
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

static int refuse_existing(const struct kept_run *kept, struct problem *p) {
        int k = problem_set(p, -EEXIST, "choose another name, or: tpuctl stop NAME", "run %s is %s",
                            kept->name, launch_state_name(kept->state));

        return problem_fill(p, k, kept->name, 0);
}

/* Gives the place of an ended run of this name to the new one. */
static int take_place(struct runs *r, struct kept_run *kept, struct run **ret, struct problem *p) {
        struct run *before = run_find(r, kept->name), *run;

        if (before && before->kept->state != LAUNCH_EXITED)
                return refuse_existing(before->kept, p);
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

/* kept is taken over. */
static int begin_run(struct runs *r, struct kept_run *kept, struct problem *p) {
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
        return k;
}

void run_refuse_coming(struct run *run, int error, const struct problem *p) {
        struct kept_run *coming = TAKE_PTR(run->coming);

        log_warning("%s", p->text);
        run->owner->events->started(coming, error, p, run->owner->userdata);
        (void) snprintf(run->kept->refused, sizeof(run->kept->refused), "%s", p->text);
        (void) kept_run_free(coming);
}

static void run_start_coming(struct run *run) {
        struct kept_run *coming = TAKE_PTR(run->coming), gone;
        struct runs *r = run->owner;
        struct problem p;
        int k;

        gone = (struct kept_run){ .generation = coming->generation };
        memcpy(gone.name, coming->name, sizeof(gone.name));
        k = begin_run(r, coming, &p);
        if (k == 0)
                return;
        log_warning("%s", p.text);
        r->events->started(&gone, k, &p,
                           r->userdata); /* coming is gone: who waits knows it by name and generation */
        run = run_find(r, gone.name);
        if (run)
                (void) snprintf(run->kept->refused, sizeof(run->kept->refused), "%s", p.text);
}

#define LOOK_FIRST (20 * USEC_PER_MSEC) /* a slice is gone in a few milliseconds, as a rule */
#define LOOK_MAX USEC_PER_SEC

static int on_look_if_free(sd_event_source *s, uint64_t usec, void *userdata);

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
        kept->hints = 0;
        kept->preempted_real = 0;
        run->restarting = true;
        run->swept = false;
        return 0;
}

/* --- The wait ------------------------------------------------------------------------------------------ */

static int look_later(struct run *run, usec_t after) {
        int k;

        run->free_timer = sd_event_source_disable_unref(run->free_timer);
        k = sd_event_add_time_relative(run->owner->event, &run->free_timer, CLOCK_MONOTONIC, after,
                                       USEC_PER_MSEC, on_look_if_free, run);
        if (k < 0)
                return k;
        (void) sd_event_source_set_description(run->free_timer, "wait-until-free");
        return 0;
}

pid_t run_left_over(const struct run *run) {
        _cleanup_free_ struct pid_list *pids = malloc(sizeof(*pids));

        if (!pids || run_pids(run, pids) < 0)
                return 0;
        return pids->n > 0 ? pids->pids[0] : 0;
}

static int run_is_free(struct run *run, const struct kept_run *wanted, struct problem *p) {
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

void run_await_free(struct run *run) {
        if (run->coming)
                run_await_free_after(run, 0);
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
        size_t n = strlen(kept->end.why);

        kept->state = LAUNCH_WAITING;
        run->restart = d->next;
        (void) snprintf(kept->end.why + n, sizeof(kept->end.why) - n, "; %s", d->words);
        log_notice("run %s: %s", kept->name, d->words);
        run_sweep(run);
        run_await_free_after(run, due > now && due - now <= d->pause ? due - now : 0);
}

/* --- What is asked for ------------------------------------------------------------------------------- */

/* Whether asked comes after the other, before it (< 0), or is it. The registry lets an intent begin under
 * the name of another only when that has ended: what is asked for with another serial is the later one. */
static int compare_generations(const struct kept_run *asked, const struct kept_run *other) {
        if (!streq(asked->intent, other->intent))
                return 1;
        return asked->generation < other->generation ? -1 : asked->generation > other->generation;
}

/* asked is to begin after the end of run, and nothing else that waited for it. */
static void await_turn(struct run *run, struct kept_run *asked) {
        struct problem stale;
        int k;

        if (run->coming) {
                k = problem_set(&stale, -ESTALE, "see: tpuctl runs",
                                "generation %" PRIu64 " of run %s came before it began",
                                asked->generation, asked->name);
                run->owner->events->started(run->coming, k, &stale, run->owner->userdata);
                (void) kept_run_free(run->coming);
        }
        log_notice("run %s: generation %" PRIu64 " is ended for generation %" PRIu64, asked->name,
                   run->kept->generation, asked->generation);
        run->coming = asked;
}

/* A run by intent is there under this name. Returns 0 when kept is to begin now, 1 when it is there already
 * or waits for the end of the one before, which *ret is then; kept is taken over then and on failure. */
static int start_by_generation(struct run *run, struct kept_run *kept, const struct kept_run **ret,
                               struct problem *p) {
        const struct kept_run *newest = run->coming ? run->coming : run->kept;
        int order = compare_generations(kept, newest), k;

        if (order == 0) {
                (void) kept_run_free(kept);
                *ret = newest;
                return 1;
        }
        if (order > 0 && run->kept->state == LAUNCH_EXITED && !run->coming)
                return 0;
        if (order < 0)
                k = problem_set(p, -ESTALE, "see: tpuctl runs",
                                "run %s is of generation %" PRIu64 " already, which is later than %" PRIu64,
                                kept->name, newest->generation, kept->generation);
        else
                k = run->kept->state == LAUNCH_EXITED ? 0 : run_stop(run, 0, p);
        if (k < 0) {
                (void) kept_run_free(kept);
                return k;
        }
        await_turn(run, kept);
        *ret = kept;
        return 1;
}

int runs_check(struct runs *r, struct kept_run *kept, struct problem *p) {
        struct run *run = kept->name[0] ? run_find(r, kept->name) : NULL;
        bool lives = run && run->kept->state != LAUNCH_EXITED,
             gang = run && run->kept->generation > 0 && kept->generation > 0;

        if (gang && compare_generations(kept, run->kept) < 0)
                return problem_set(p, -ESTALE, "see: tpuctl runs",
                                   "run %s is of generation %" PRIu64
                                   " already, which is later than %" PRIu64,
                                   kept->name, run->kept->generation, kept->generation);
        if (lives && gang)
                return 0; /* it is ended first, and the devices are looked at then */
        if (lives)
                return refuse_existing(run->kept, p);
        if (runs_count_active(r) >= RUNS_ACTIVE_MAX)
                return problem_set(p, -EBUSY, "stop one: tpuctl runs",
                                   "%d runs are active, which is the most", RUNS_ACTIVE_MAX);
        return check_devices(r, kept, p);
}

int runs_start(struct runs *r, struct kept_run *kept, const struct kept_run **ret, struct problem *p) {
        struct run *run;
        int k;

        if (kept->name[0] == '\0')
                pick_name(r, kept);
        run = run_find(r, kept->name);
        if (run && kept->generation > 0 && run->kept->generation > 0) {
                k = start_by_generation(run, kept, ret, p);
                if (k != 0)
                        return k;
        }
        k = run && run->kept->state == LAUNCH_EXITED ? run_is_free(run, kept, p) : 0;
        if (k >= 0)
                k = check_devices(r, kept, p);
        if (k < 0) {
                (void) kept_run_free(kept);
                return k;
        }
        k = begin_run(r, kept, p);
        if (k == 0)
                *ret = kept;
        return k;
}
