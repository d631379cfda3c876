/* SPDX-License-Identifier: Apache-2.0 */
/* A run that is started again under its policy: the pause, and the start with an id of its own. */
#include <systemd/sd-id128.h>

#include "log.h"
#include "run_table.h"
#include "secret.h"

void run_wait_for_restart(struct run *run, const struct restart_decision *d) {
        struct job *j = run->job;
        usec_t now = host_now(run->owner->host), due = j->end.boot + d->pause;
        size_t n = strlen(j->end.why);

        j->state = JOB_WAITING;
        run->restart = d->next;
        (void) snprintf(j->end.why + n, sizeof(j->end.why) - n, "; %s", d->words);
        log_notice("run %s: %s", j->name, d->words);
        run_sweep(run);
        run_await_free_after(run, due > now && due - now <= d->pause ? due - now : 0);
}

static int write_again(struct runs *r, struct job *j) {
        sd_id128_t id;
        int k = sd_id128_randomize(&id);

        if (k < 0)
                return k;
        (void) sd_id128_to_string(id, j->id);
        j->started_real = host_now_real(r->host);
        j->started_boot = host_now(r->host);
        return job_write(r->jobs_fd, j);
}

int run_start_again(struct run *run, struct problem *p) {
        struct runs *r = run->owner;
        struct job *j = run->job;
        _cleanup_(strings_freep) char **devices = devices_nodes(r->host, &j->spec);
        struct unit_spec spec = {
                .name = j->name, .id = j->id, .user = j->user, .run = &j->spec, .devices = devices
        };
        struct restarts before = j->restarts;
        int k;

        j->restarts = run->restart;
        k = write_again(r, j);
        spec.secrets = secrets_exist(r->secrets_fd, j->name);
        if (k >= 0)
                k = r->units->start(r->backend, &spec);
        if (k < 0) {
                j->restarts = before;
                return problem_set(p, k, "see: journalctl -b -u tpu-launchd",
                                   "run %s: it cannot be started again: %s", j->name, strerror(-k));
        }
        j->state = JOB_STARTING;
        j->hints = 0;
        j->preempted_real = 0;
        run->restarting = true;
        run->swept = false;
        return 0;
}
