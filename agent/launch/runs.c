/* SPDX-License-Identifier: Apache-2.0 */
#include "runs.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include "handover.h"
#include "log.h"
#include "machine_state.h"
#include "run_table.h"

/* --- Loading ------------------------------------------------------------------------------------------- */

static int load_one(const char *name, void *userdata) {
        _cleanup_(kept_run_freep) struct kept_run *kept = NULL;
        char boot_id[BOOT_ID_MAX] = "";
        struct runs *r = userdata;
        struct run *run;
        int k;

        if (strchr(name, '.')) /* what a crash left of a write, or what was set aside */
                return 0;
        k = kept_run_read(r->runs_fd, name, &kept);
        if (k < 0 && k != -ENOENT) /* that was set aside, and is said */
                (void) log_warning_errno(k, STATE_RUNS "/%s cannot be read, left out: %m", name);
        if (k < 0)
                return 0;
        run = run_insert(r, kept);
        if (!run)
                return -ENOMEM;
        kept = NULL;
        run->kept->state = LAUNCH_RUNNING; /* until systemd says otherwise */
        (void) host_boot_id(r->host, boot_id);
        k = exit_record_read(r->exits_fd, name, run->kept->id, &run->kept->end);
        /* It was judged before, or the host went down with it. One that ended while we were away is judged
         * when it is asked about: that takes the journal. */
        if ((k == 0 && run->kept->end.cause[0]) || !streq(run->kept->boot_id, boot_id))
                run_ended(run);
        return 0;
}

static int load_runs(struct runs *r) {
        return host_list(r->host, STATE_RUNS, load_one, r);
}

/* --- Where they are kept ------------------------------------------------------------------------------- */

static int make_directories(struct runs *r) {
        const struct {
                const char *path;
                mode_t mode;
                int *fd;
        } all[] = {
                { STATE_RUNS, 0700, &r->runs_fd },
                { STATE_EXITS, 0700, &r->exits_fd },
                { STATE_WORDS, 0700, &r->words_fd },
                { STATE_HANDOVER, 0711, &r->handover_fd },
                { STATE_SECRETS, 0700, &r->secrets_fd },
        };

        for (size_t i = 0; i < ELEMENTSOF(all); i++) {
                int fd = *all[i].fd >= 0 ? *all[i].fd : state_make(r->host, all[i].path, all[i].mode);

                if (fd < 0)
                        return fd;
                *all[i].fd = fd;
        }
        return 0;
}

#define ROOM_LEAST (1024 * 1024) /* a run's files: its environment may be that long */

int runs_state(struct runs *r) {
        struct statvfs fs;

        if (r->runs_fd < 0 || r->secrets_fd < 0) { /* it was not there at the start */
                int k = make_directories(r);

                if (k >= 0)
                        k = load_runs(r);
                if (k < 0)
                        return k;
        }
        if (faccessat(r->runs_fd, ".", W_OK, AT_EACCESS) < 0 || fstatvfs(r->runs_fd, &fs) < 0)
                return -errno;
        if ((uint64_t) fs.f_bavail * fs.f_frsize < ROOM_LEAST || (fs.f_files > 0 && fs.f_favail == 0))
                return -ENOSPC;
        return 0;
}

/* Without its files a run would be forgotten with us: it does not begin. */
static int check_state(struct runs *r, struct problem *p) {
        int k = runs_state(r);

        if (k >= 0)
                return 0;
        return problem_set(p, k, "tpuctl check daemon # names what to do; running runs go on",
                           "no run can be started: " PATH_LAUNCHD_STATE " cannot be written: %s",
                           strerror(-k));
}

/* --- What the units report --------------------------------------------------------------------------- */

static void on_refused(const char *name, int error, const char *text, void *userdata) {
        struct runs *r = userdata;
        struct run *run = run_find(r, name);
        struct problem p;

        if (!run || run->kept->state != LAUNCH_STARTING)
                return;
        if (error == -ENOTCONN) {
                (void) problem_set(&p, error, "see: tpuctl runs",
                                   "run %s: the system bus was lost while systemd was asked to start it",
                                   name);
                r->events->started(run->kept, error, &p, r->userdata);
                return; /* whether there is a unit is seen when the bus is back */
        }
        if (run_retry_restart(run))
                return;
        if (error == -EEXIST && strstr(text, ".slice"))
                /* one with limits is made again for each start: unit_message.c */
                (void) problem_set(&p, error,
                                   "systemctl stop its slice; a unit in it that failed is kept until: "
                                   "systemctl reset-failed",
                                   "run %s: systemd still has the slice of a run before it: %.150s", name,
                                   text);
        else if (error == -EEXIST)
                (void) problem_set(&p, error,
                                   "choose another name, or wait until 'systemctl status tpu-run-NAME' "
                                   "knows it no more",
                                   "run %s: there still is a unit %s%s.service", name, RUN_UNIT_PREFIX,
                                   name);
        else
                (void) problem_set(&p, error, "see: journalctl -b -u tpu-launchd",
                                   "run %s: systemd refuses it: %.200s", name, text);
        (void) problem_fill(&p, error, name, 0);
        log_warning("%s", p.text);
        r->events->started(run->kept, error, &p, r->userdata);
        run_undo(r, run);
}

static void on_started(const char *name, const char *result, void *userdata) {
        struct runs *r = userdata;
        struct run *run = run_find(r, name);
        struct problem p = { 0 };
        int error = 0;

        if (!run || run->kept->state != LAUNCH_STARTING)
                return;
        run->replaced = kept_run_free(run->replaced);
        run->restarting = false;
        if (streq(result, "failed"))
                return; /* its command ran, and ended before systemd saw it run: its end is reported */
        if (streq(result, "done"))
                run->kept->state = LAUNCH_RUNNING;
        else
                error = problem_set(&p, -EIO, "see: journalctl -b -u tpu-run-NAME.service",
                                    "run %s could not be started: %.32s", name, result);
        (void) problem_fill(&p, error, name, 0);
        r->events->started(run->kept, error, &p, r->userdata);
}

static void on_running(const char *name, uint32_t main_pid, const char *control_group, void *userdata) {
        struct runs *r = userdata;
        struct run *run = run_find(r, name);
        const char *slash = strrchr(control_group, '/');
        bool other;

        if (!run || run->kept->state == LAUNCH_EXITED)
                return;
        if (run->kept->state == LAUNCH_STARTING) { /* the end of its start was missed with the bus */
                run->kept->state = LAUNCH_RUNNING;
                run->replaced = kept_run_free(run->replaced);
                r->events->started(run->kept, 0, NULL, r->userdata);
        }
        other = run->kept->main_pid != main_pid;
        run->kept->main_pid = main_pid;
        if (slash && slash != control_group) {
                free(run->kept->control_group);
                /* the slice: containers are in it, too */
                run->kept->control_group = strndup(control_group, (size_t) (slash - control_group));
        }
        if (other)
                r->events->running(run->kept, r->userdata);
}

static void on_gone(const char *name, void *userdata) {
        struct runs *r = userdata;
        struct run *run = run_find(r, name);

        if (run)
                run_ended(run);
        runs_prune(r);
}

static void on_connected(void *userdata) {
        struct runs *r = userdata;
        char boot_id[BOOT_ID_MAX] = "";

        (void) host_boot_id(r->host, boot_id);
        for (struct run *run = r->list; run; run = run->next)
                if (run->kept->held)
                        continue;
                else if (run->kept->state != LAUNCH_EXITED)
                        /* a bus that is lost again comes back again */
                        (void) r->units->query(r->backend, run->kept->name);
                else if (streq(run->kept->boot_id, boot_id))
                        run_sweep(run); /* it ended while we were away */
}

const struct unit_events runs_unit_events = {
        .refused = on_refused,
        .started = on_started,
        .running = on_running,
        .gone = on_gone,
        .connected = on_connected,
};

/* --- What is asked for --------------------------------------------------------------------------------- */

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

/* Whether asked comes after the other, before it (< 0), or is it. The registry lets an intent begin under
 * the name of another only when that has ended: what is asked for with another serial is the later one. */
static int compare_generations(const struct kept_run *asked, const struct kept_run *other) {
        return streq(asked->intent, other->intent) ? COMPARE(asked->generation, other->generation) : 1;
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
                k = run_refuse_stale(newest, kept->generation, p);
        else
                k = run->kept->state == LAUNCH_EXITED ? 0 : run_stop(run, p);
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
        int k;
        bool lives = run && run->kept->state != LAUNCH_EXITED,
             gang = run && run->kept->generation > 0 && kept->generation > 0;

        if (gang && compare_generations(kept, run->kept) < 0)
                return run_refuse_stale(run->kept, kept->generation, p);
        if (lives && gang)
                return 0; /* it is ended first, and the devices are looked at then */
        if (lives)
                return run_refuse_existing(run->kept, p);
        if (runs_count_active(r) >= RUNS_ACTIVE_MAX)
                return problem_set(p, -EBUSY, "stop one: tpuctl runs",
                                   "%d runs are active, which is the most", RUNS_ACTIVE_MAX);
        k = check_state(r, p);
        return k < 0 ? k : check_devices(r, kept, p);
}

int runs_start(struct runs *r, struct kept_run *kept, const struct kept_run **ret, struct problem *p) {
        struct run *run;
        int k = check_state(r, p);

        if (k < 0) {
                (void) kept_run_free(kept);
                return k;
        }
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
        k = run_start_new(r, kept, p);
        if (k == 0)
                *ret = kept;
        return k;
}

/* --- Questions ----------------------------------------------------------------------------------------- */

uint64_t runs_next_generation(const struct runs *r, const char *name) {
        const struct run *run = run_find(r, name);

        return run && run->coming ? run->coming->generation : 0;
}

const struct kept_run *runs_find(const struct runs *r, const char *name) {
        struct run *run = run_find(r, name);

        return run ? run->kept : NULL;
}

void runs_visit(struct runs *r, void (*visit)(const struct kept_run *kept, void *userdata), void *userdata) {
        for (struct run *run = r->list; run; run = run->next) {
                struct exit_record record;

                if (!run->kept->held && run->kept->state != LAUNCH_EXITED &&
                    exit_record_read(r->exits_fd, run->kept->name, run->kept->id, &record) == 0)
                        run_ended(run); /* a unit that somebody holds is never seen to go; its record says it
                                           has */
                if (!run->kept->held && run->kept->state == LAUNCH_RUNNING && !run->kept->control_group)
                        /* not known yet, or not reported when it was: at the next visit, then */
                        (void) r->units->query(r->backend, run->kept->name);
                visit(run->kept, userdata);
        }
        runs_prune(r);
}

uint32_t runs_processes(const struct runs *r, const struct kept_run *kept) {
        _cleanup_free_ struct pid_list *pids = malloc(sizeof(*pids));
        const struct run *run = run_find(r, kept->name);

        if (kept->state == LAUNCH_EXITED || !run || !pids || run_pids(run, pids) < 0)
                return 0;
        return (uint32_t) pids->n;
}

/* --- Beginning and end --------------------------------------------------------------------------------- */

#define OWN_FILE PATH_LAUNCHD_STATE "/" MACHINE_STATE_NAME

/* Of another machine: renamed, and kept for a person. */
static void set_runs_aside(const char *root, const struct machine_ids *of) {
        static const char *const all[] = { STATE_RUNS, STATE_EXITS, STATE_WORDS, OWN_FILE };

        log_notice("the runs kept here are those of %s, whose disk or image this was: set aside", of->host);
        for (size_t i = 0; i < ELEMENTSOF(all); i++) {
                char path[MACHINE_PATH_MAX], aside[MACHINE_PATH_MAX];
                int k = -ENAMETOOLONG;

                if (snprintf(path, sizeof(path), "%s%s", root, all[i]) < (int) sizeof(path))
                        k = machine_state_set_aside(path, aside);
                if (k < 0)
                        (void) log_warning_errno(k, "%s is another machine's and stays: %m", all[i]);
        }
}

/*
 * Whose runs they are (machine_state.h). There is no network here, and so no instance id: the machine id
 * decides. Runs of this boot are this machine's, whatever became of its id: asked again at the end of the
 * process, a new id is kept for the next boot. An id that was only emptied is none: images are made so.
 */
void runs_bind(const struct host *h) {
        const char *root = h->real_root ? "" : h->root;
        struct machine_state s = { 0 }, now = { 0 };
        char path[MACHINE_PATH_MAX];
        int k;

        if (snprintf(path, sizeof(path), "%s%s", root, OWN_FILE) >= (int) sizeof(path))
                return;
        /* What cannot be read is not known, and no difference. */
        (void) host_read(h, "/etc/machine-id", now.of.machine, sizeof(now.of.machine), NULL);
        (void) host_boot_id(h, now.of.boot);
        (void) host_name(h, now.of.host);
        if (machine_state_read(path, &s) == 0 &&
            machine_state_judge(&s.of, &now.of, true) == MACHINE_OTHERS)
                set_runs_aside(root, &s.of);
        else if (!now.of.machine[0])
                memcpy(now.of.machine, s.of.machine, sizeof(s.of.machine));
        k = memcmp(&s, &now, sizeof(s)) != 0 ? machine_state_write(path, &now) : 0;
        if (k < 0)
                (void) log_warning_errno(k, "%s is not kept: %m", OWN_FILE);
}

int runs_new(sd_event *e, const struct host *h, const char *stack_tool, const struct runs_events *events,
             void *userdata, struct runs **ret) {
        _cleanup_(runs_freep) struct runs *r = calloc(1, sizeof(*r));
        int k;

        if (!r)
                return -ENOMEM;
        r->event = sd_event_ref(e);
        r->host = h;
        r->stack_tool = stack_tool;
        r->journal = h->real_root;
        r->events = events;
        r->userdata = userdata;
        r->runs_fd = r->exits_fd = r->words_fd = r->handover_fd = r->secrets_fd = -1;
        runs_bind(h);
        k = make_directories(r);
        if (k >= 0)
                k = load_runs(r);
        if (k == -ENOMEM)
                return log_error_errno(k, "%m");
        if (k < 0)
                (void) log_error_errno(k,
                                       PATH_LAUNCHD_STATE " cannot be used, no run is started: %m");
        runs_prune(r);
        *ret = TAKE_PTR(r);
        return 0;
}

void runs_attach(struct runs *r, const struct unit_backend *backend, void *userdata) {
        r->units = backend;
        r->backend = userdata;
}

struct runs *runs_free(struct runs *r) {
        if (!r)
                return NULL;
        while (r->list) {
                struct run *run = r->list;

                r->list = run->next;
                (void) run_free(run);
        }
        r->runs_fd = close_fd(r->runs_fd);
        r->exits_fd = close_fd(r->exits_fd);
        r->words_fd = close_fd(r->words_fd);
        r->handover_fd = close_fd(r->handover_fd);
        r->secrets_fd = close_fd(r->secrets_fd);
        sd_event_unref(r->event);
        free(r);
        return NULL;
}
