/* SPDX-License-Identifier: Apache-2.0 */
#include "handover.h"
#include "log.h"
#include "run_table.h"
#include "secret.h"
#include "state.h"

void run_undo(struct runs *r, struct run *run) {
        int k = 0;

        run_unlink(r, run);
        run_remove_files(r, run->job->name, false);
        if (run->replaced) {
                k = job_write(r->jobs_fd, run->replaced);
                if (k < 0 || !run_insert(r, run->replaced))
                        (void) log_warning_errno(k, "run %s: what is known of the run before it is lost",
                                                 run->job->name);
                else
                        run->replaced = NULL;
        }
        (void) run_free(run);
}

/* What keeps it from beginning; what could not be looked at, or does not hold, is in its warning. */
static int check_devices(struct runs *r, struct job *j, struct problem *p) {
        int k = devices_check(r->host, j->spec, j->name, p, j->warning, sizeof(j->warning));

        if (k >= 0)
                device_policy_warn(r->host, j->spec, j->warning, sizeof(j->warning));
        return k;
}

static void pick_name(const struct runs *r, struct job *j) {
        unsigned n, last = 0;
        char rest;

        for (const struct run *run = r->list; run; run = run->next)
                if (sscanf(run->job->name, "run-%u%c", &n, &rest) == 1 && n > last && n < UINT32_MAX)
                        last = n;
        (void) snprintf(j->name, sizeof(j->name), "run-%u", last + 1);
}

static int not_written(const struct job *j, const char *directory, int error, struct problem *p) {
        char remedy[128];

        (void) snprintf(remedy, sizeof(remedy), "see: df %s", directory);
        return problem_set(p, error, remedy, "run %s: %s cannot be written: %s", j->name, directory,
                           strerror(-error));
}

static int write_files(struct runs *r, const struct job *j, struct problem *p) {
        int k;

        k = job_write(r->jobs_fd, j);
        if (k < 0)
                return not_written(j, STATE_JOBS, k, p);
        k = handover_write(r->handover_fd, j->name, j->uid, j->directory, j->argv, j->env);
        if (k < 0)
                return not_written(j, STATE_HANDOVER, k, p);
        if (!j->secrets)
                secrets_remove(r->secrets_fd, j->name); /* of a run before, which may be another user's */
        k = j->secrets ? secrets_write(r->secrets_fd, j->name, j->secrets) : 0;
        return k < 0 ? not_written(j, STATE_SECRETS, k, p) : 0;
}

int run_ask_unit(struct runs *r, const struct job *j, bool beside) {
        _cleanup_(strings_freep) char **devices = devices_nodes(r->host, j->spec);
        struct unit_spec spec = { .job = j,
                                  .devices = devices,
                                  .secrets = secrets_exist(r->secrets_fd, j->name) };

        return beside ? r->units->beside(r->backend, &spec) : r->units->start(r->backend, &spec);
}

static int is_there(const struct job *j, struct problem *p) {
        int k = problem_set(p, -EEXIST, "choose another name, or: tpuctl stop NAME", "run %s is %s", j->name,
                            job_state_name(j->state));

        return problem_fill(p, k, j->name, 0);
}

/* Gives the place of an ended run of this name to the new one. */
static int take_place(struct runs *r, struct job *j, struct run **ret, struct problem *p) {
        struct run *before = run_find(r, j->name), *run;

        if (before && before->job->state != JOB_EXITED)
                return is_there(before->job, p);
        if (before && before->capture)
                return problem_set(p, -EBUSY, "choose another name",
                                   "a capture of the run %s before this one has not ended", j->name);
        if (runs_count_active(r) >= JOBS_ACTIVE_MAX)
                return problem_set(p, -EBUSY, "stop one: tpuctl jobs",
                                   "%d runs are active, which is the most", JOBS_ACTIVE_MAX);
        run = run_insert(r, j);
        if (!run)
                return problem_set(p, -ENOMEM, "try again", "out of memory");
        if (before) {
                run->replaced = TAKE_PTR(before->job);
                run_unlink(r, before);
                (void) run_free(before);
        }
        *ret = run;
        return 0;
}

/* j is taken over. */
static int begin(struct runs *r, struct job *j, struct problem *p) {
        struct run *run = NULL;
        int k;

        j->state = JOB_STARTING;
        j->started_real = host_now_real(r->host);
        j->started_boot = host_now(r->host);
        k = take_place(r, j, &run, p);
        if (k < 0) {
                (void) job_free(j);
                return k;
        }
        k = write_files(r, j, p);
        j->secrets = secrets_free(j->secrets);
        if (k >= 0) {
                k = run_ask_unit(r, j, false);
                if (k == -ENOTCONN)
                        (void) problem_set(p, k, "try again; see: systemctl status dbus",
                                           "the system bus cannot be reached at this moment");
                else if (k < 0)
                        (void) problem_set(p, k, "see: journalctl -b -u tpu-launchd",
                                           "run %s: systemd cannot be asked: %s", j->name, strerror(-k));
        }
        if (k < 0)
                run_undo(r, run);
        return k;
}

void run_refuse_coming(struct run *run, int error, const struct problem *p) {
        struct job *j = TAKE_PTR(run->coming);

        log_warning("%s", p->text);
        run->owner->events->started(j, error, p, run->owner->userdata);
        (void) snprintf(run->job->refused, sizeof(run->job->refused), "%s", p->text);
        (void) job_free(j);
}

void run_start_coming(struct run *run) {
        struct job *j = TAKE_PTR(run->coming), told;
        struct runs *r = run->owner;
        struct problem p;
        int k;

        told = (struct job){ .generation = j->generation };
        memcpy(told.name, j->name, sizeof(told.name));
        k = begin(r, j, &p);
        if (k == 0)
                return;
        log_warning("%s", p.text);
        r->events->started(&told, k, &p,
                           r->userdata); /* j is gone: who waits knows it by name and generation */
        run = run_find(r, told.name);
        if (run)
                (void) snprintf(run->job->refused, sizeof(run->job->refused), "%s", p.text);
}

/* Whether asked comes after the other, before it (< 0), or is it. The registry lets an intent begin under
 * the name of another only when that has ended: what is asked for with another serial is the later one. */
static int compare(const struct job *asked, const struct job *other) {
        if (!streq(asked->intent, other->intent))
                return 1;
        return asked->generation < other->generation ? -1 : asked->generation > other->generation;
}

/* asked is to begin after the end of run, and nothing else that waited for it. */
static void take_turn(struct run *run, struct job *asked) {
        struct problem stale;
        int k;

        if (run->coming) {
                k = problem_set(&stale, -ESTALE, "see: tpuctl jobs",
                                "generation %" PRIu64 " of run %s came before it began",
                                asked->generation, asked->name);
                run->owner->events->started(run->coming, k, &stale, run->owner->userdata);
                (void) job_free(run->coming);
        }
        log_notice("run %s: generation %" PRIu64 " is ended for generation %" PRIu64, asked->name,
                   run->job->generation, asked->generation);
        run->coming = asked;
}

/* A run by intent is there under this name. Returns 0 when j is to begin now, 1 when it is there already or
 * waits for the end of the one before, which *ret is then; j is taken over then and on failure. */
static int by_generation(struct run *run, struct job *j, const struct job **ret, struct problem *p) {
        const struct job *newest = run->coming ? run->coming : run->job;
        int order = compare(j, newest), k;

        if (order == 0) {
                (void) job_free(j);
                *ret = newest;
                return 1;
        }
        if (order > 0 && run->job->state == JOB_EXITED && !run->coming)
                return 0;
        if (order < 0)
                k = problem_set(p, -ESTALE, "see: tpuctl jobs",
                                "run %s is of generation %" PRIu64 " already, which is later than %" PRIu64,
                                j->name, newest->generation, j->generation);
        else
                k = run->job->state == JOB_EXITED ? 0 : run_stop(run, 0, p);
        if (k < 0) {
                (void) job_free(j);
                return k;
        }
        take_turn(run, j);
        *ret = j;
        return 1;
}

int runs_check(struct runs *r, struct job *j, struct problem *p) {
        struct run *run = j->name[0] ? run_find(r, j->name) : NULL;
        bool lives = run && run->job->state != JOB_EXITED,
             gang = run && run->job->generation > 0 && j->generation > 0;

        if (gang && compare(j, run->job) < 0)
                return problem_set(p, -ESTALE, "see: tpuctl jobs",
                                   "run %s is of generation %" PRIu64
                                   " already, which is later than %" PRIu64,
                                   j->name, run->job->generation, j->generation);
        if (lives && gang)
                return 0; /* it is ended first, and the devices are looked at then */
        if (lives)
                return is_there(run->job, p);
        if (runs_count_active(r) >= JOBS_ACTIVE_MAX)
                return problem_set(p, -EBUSY, "stop one: tpuctl jobs",
                                   "%d runs are active, which is the most", JOBS_ACTIVE_MAX);
        return check_devices(r, j, p);
}

int runs_start(struct runs *r, struct job *j, const struct job **ret, struct problem *p) {
        struct run *run;
        int k;

        if (j->name[0] == '\0')
                pick_name(r, j);
        run = run_find(r, j->name);
        if (run && j->generation > 0 && run->job->generation > 0) {
                k = by_generation(run, j, ret, p);
                if (k != 0)
                        return k;
        }
        k = run && run->job->state == JOB_EXITED ? run_is_free(run, j, p) : 0;
        if (k >= 0)
                k = check_devices(r, j, p);
        if (k < 0) {
                (void) job_free(j);
                return k;
        }
        k = begin(r, j, p);
        if (k == 0)
                *ret = j;
        return k;
}
