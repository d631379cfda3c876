/* SPDX-License-Identifier: Apache-2.0 */
/* A run is told that its host is about to go, as its own spec says; and what others saw of why it may end.
 */
#include "handover.h"
#include "log.h"
#include "run_table.h"
#include "secret.h"

static int send_signal(struct run *run, char *done, size_t size, struct problem *p) {
        struct runs *r = run->owner;
        int number = run->job->spec.preempt_signal;
        int k = r->units->signal(r->backend, run->job->name, number);

        if (k < 0)
                return problem_set(p, k, "try again; see: systemctl status dbus",
                                   "run %s: it cannot be sent %s: %s", run->job->name,
                                   run_signal_name(number), strerror(-k));
        (void) snprintf(done, size, "%s to process %u", run_signal_name(number), run->job->main_pid);
        return 0;
}

static int start_command(struct run *run, char *done, size_t size, struct problem *p) {
        const struct job *j = run->job;
        struct runs *r = run->owner;
        _cleanup_(strings_freep) char **devices = devices_nodes(r->host, &j->spec);
        struct unit_spec spec = {
                .name = j->name, .id = j->id, .user = j->user, .run = &j->spec, .devices = devices
        };
        char handover[JOB_NAME_MAX + 16];
        int k;

        (void) snprintf(handover, sizeof(handover), "%s%s", j->name, HANDOVER_PREEMPT);
        spec.secrets = secrets_exist(r->secrets_fd, j->name);
        k = handover_write(r->handover_fd, handover, j->uid, j->directory, j->spec.preempt_argv, j->env);
        if (k >= 0)
                k = r->units->beside(r->backend, &spec);
        if (k < 0)
                return problem_set(p, k, "see: journalctl -b -u tpu-launchd",
                                   "run %s: its command for a preemption cannot be started: %s", j->name,
                                   strerror(-k));
        (void) snprintf(done, size, "its command as %s%s.service", PREEMPT_UNIT_PREFIX, j->name);
        return 0;
}

int runs_signal(struct runs *r, const char *name, uint64_t generation, char *ret_done, size_t size,
                struct problem *p) {
        struct run *run = run_find(r, name);
        struct job *j;
        int k;

        if (!run)
                return no_such_run(name, p);
        j = run->job;
        if (generation > 0 && j->spec.generation > generation)
                return problem_set(p, -ESTALE, "see: tpuctl jobs",
                                   "run %s is of generation %" PRIu64 ", which is later than %" PRIu64, name,
                                   j->spec.generation, generation);
        if (j->state == JOB_EXITED)
                return problem_set(p, -ESRCH, "see: tpuctl jobs", "run %s has ended", name);
        if (!j->spec.preempt_argv && j->spec.preempt_signal == 0)
                return problem_set(p, -ENOTSUP, "start it with tpuctl run --preempt TERM",
                                   "run %s does not say how it is told of a preemption", name);
        k = j->spec.preempt_argv ? start_command(run, ret_done, size, p)
                                 : send_signal(run, ret_done, size, p);
        if (k < 0)
                return k;
        if (j->preempted_real != 0)
                return 0;
        j->preempted_real = host_now_real(r->host);
        k = job_write(r->jobs_fd, j);
        if (k < 0) /* it was told; only why it ends may be said less well after our own end */
                (void) log_warning_errno(
                        k, "run %s: that it was told of a preemption cannot be written down: %m", name);
        return 0;
}

uint32_t runs_hint(struct runs *r, const char *name, enum hint hint, const char *text) {
        uint32_t n = 0;

        for (struct run *run = r->list; run; run = run->next) {
                struct job *j = run->job;

                if (j->state == JOB_EXITED || (name[0] && !streq(name, j->name)))
                        continue;
                j->hints |= 1u << hint;
                (void) snprintf(j->hint_text[hint], sizeof(j->hint_text[hint]), "%.255s", text);
                n++;
        }
        return n;
}
