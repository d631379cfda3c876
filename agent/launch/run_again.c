/* SPDX-License-Identifier: Apache-2.0 */
/* Between the end of a run and the next start under its name: its own, or that of a higher generation. Its
 * slice is empty first, and the devices are free. */
#include <systemd/sd-id128.h>

#include "log.h"
#include "run_table.h"

#define LOOK_FIRST (20 * USEC_PER_MSEC) /* a slice is gone in a few milliseconds, as a rule */
#define LOOK_MAX USEC_PER_SEC

static int on_look(sd_event_source *s, uint64_t usec, void *userdata);

/* --- The wait ------------------------------------------------------------------------------------------ */

static int look_later(struct run *run, usec_t after) {
        int k;

        run->free_timer = sd_event_source_disable_unref(run->free_timer);
        k = sd_event_add_time_relative(run->owner->event, &run->free_timer, CLOCK_MONOTONIC, after,
                                       USEC_PER_MSEC, on_look, run);
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

int run_is_free(struct run *run, const struct kept_run *wanted, struct problem *p) {
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

static bool retry(struct run *run) {
        if (host_now(run->owner->host) >= run->free_deadline)
                return false;
        run->free_pause = MIN(run->free_pause * 2, LOOK_MAX);
        return look_later(run, run->free_pause) >= 0;
}

/* The run itself is due again. */
static void look_for_restart(struct run *run) {
        struct problem p;
        char words[sizeof(p.text) + 32];

        if ((run_is_free(run, run->kept, &p) >= 0 && run_start_again(run, &p) >= 0) || retry(run))
                return;
        (void) snprintf(words, sizeof(words), "not restarted: %s", p.text);
        log_warning("run %s: %s", run->kept->name, words);
        run_finish(run, words);
}

static int on_look(sd_event_source *s, uint64_t usec, void *userdata) {
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
        else if (!retry(run))
                run_refuse_coming(run, k, &p);
        return 0;
}

void run_await_free_after(struct run *run, usec_t pause) {
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
        if (!retry(run))
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

static int write_again(struct runs *r, struct kept_run *kept) {
        sd_id128_t id;
        int k = sd_id128_randomize(&id);

        if (k < 0)
                return k;
        (void) sd_id128_to_string(id, kept->id);
        kept->started_real = host_now_real(r->host);
        kept->started_boot = host_now(r->host);
        return kept_run_write(r->runs_fd, kept);
}

int run_start_again(struct run *run, struct problem *p) {
        struct runs *r = run->owner;
        struct kept_run *kept = run->kept;
        struct restarts before = kept->restarts;
        int k;

        kept->restarts = run->restart;
        k = write_again(r, kept);
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
