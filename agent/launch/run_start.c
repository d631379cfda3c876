/* SPDX-License-Identifier: Apache-2.0 */
#include "handover.h"
#include "log.h"
#include "run_table.h"
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

static void pick_name(const struct runs *r, struct job *j) {
        unsigned n, last = 0;
        char rest;

        for (const struct run *run = r->list; run; run = run->next)
                if (sscanf(run->job->name, "run-%u%c", &n, &rest) == 1 && n > last && n < UINT32_MAX)
                        last = n;
        (void) snprintf(j->name, sizeof(j->name), "run-%u", last + 1);
}

static int write_files(struct runs *r, const struct job *j, struct problem *p) {
        int k;

        k = job_write(r->jobs_fd, j);
        if (k < 0)
                return problem_set(p, k, "see: df " PATH_LAUNCHD_STATE,
                                   "run %s: %s/%s cannot be written: %s", j->name, PATH_LAUNCHD_STATE,
                                   STATE_JOBS, strerror(-k));
        k = handover_write(r->handover_fd, j->name, j->uid, j->directory, j->argv, j->env);
        if (k < 0)
                return problem_set(p, k, "see: df " PATH_LAUNCHD_RUNTIME,
                                   "run %s: %s/%s cannot be written: %s", j->name, PATH_LAUNCHD_RUNTIME,
                                   STATE_HANDOVER, strerror(-k));
        return 0;
}

/* Gives the place of an ended run of this name to the new one. */
static int take_place(struct runs *r, struct job *j, struct run **ret, struct problem *p) {
        struct run *before = run_find(r, j->name), *run;

        if (before && before->job->state != JOB_EXITED)
                return problem_set(p, -EEXIST, "choose another name, or: tpuctl stop NAME", "run %s is %s",
                                   j->name, job_state_name(before->job->state));
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

int runs_start(struct runs *r, struct job *j, const struct job **ret, struct problem *p) {
        struct unit_spec spec = { .id = j->id, .user = j->user };
        struct run *run = NULL;
        int k;

        if (j->name[0] == '\0')
                pick_name(r, j);
        spec.name = j->name;
        j->state = JOB_STARTING;
        j->started_real = host_now_real(r->host);
        j->started_boot = host_now(r->host);
        k = take_place(r, j, &run, p);
        if (k < 0) {
                (void) job_free(j);
                return k;
        }
        k = write_files(r, j, p);
        if (k >= 0) {
                k = r->units->start(r->backend, &spec);
                if (k == -ENOTCONN)
                        (void) problem_set(p, k, "try again; see: systemctl status dbus",
                                           "the system bus cannot be reached at this moment");
                else if (k < 0)
                        (void) problem_set(p, k, "see: journalctl -b -u tpu-launchd",
                                           "run %s: systemd cannot be asked: %s", j->name, strerror(-k));
        }
        if (k < 0) {
                run_undo(r, run);
                return k;
        }
        *ret = j;
        return 0;
}
