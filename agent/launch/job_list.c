/* SPDX-License-Identifier: Apache-2.0 */
#include "job_list.h"

#include "step_expression.h"
#include "wire_text.h"

#define COMMAND_TEXT_MAX 256

struct listing {
        struct runs *runs;
        const char *name;
        struct job_list *list;
        bool failed;
};

static const char *variable(const struct job *j, const char *name) {
        size_t n = strlen(name);

        for (size_t i = 0; j->env && j->env[i]; i++)
                if (strncmp(j->env[i], name, n) == 0 && j->env[i][n] == '=')
                        return j->env[i] + n + 1;
        return "";
}

/* Everything borrowed from the job, but the command. */
static Local__Job *describe(const struct runs *r, const struct job *j) {
        struct {
                Local__Job job;
                char unit[JOB_UNIT_MAX], command[COMMAND_TEXT_MAX];
        } *d = malloc(sizeof(*d));

        if (!d)
                return NULL;
        local__job__init(&d->job);
        d->job.name = wire_text(j->name);
        d->job.unit = wire_text(job_unit(j->name, d->unit));
        d->job.state = wire_text(job_shown_state(j));
        d->job.framework = wire_text(j->framework);
        d->job.malloc = wire_text(j->malloc);
        d->job.user = j->user;
        d->job.command = wire_text(job_command(j, d->command, sizeof(d->command)));
        d->job.started_real_usec = j->started_real;
        d->job.main_pid = j->main_pid;
        d->job.processes = runs_processes(r, j);
        if (j->control_group)
                d->job.control_group = j->control_group;
        d->job.generation = j->spec.generation;
        d->job.intent = wire_text(j->spec.intent);
        d->job.slice = wire_text(j->spec.slice);
        d->job.worker = wire_text(j->spec.worker);
        d->job.step_expression = wire_text(variable(j, STEP_EXPRESSION_VARIABLE));
        d->job.restarts = j->restarts.done;
        d->job.restarts_max = j->spec.restarts;
        d->job.preempted_real_usec = j->preempted_real;
        d->job.next_generation = runs_next_generation(r, j->name);
        d->job.refused = wire_text(j->refused);
        if (j->state == JOB_EXITED || j->state == JOB_WAITING) {
                d->job.cause = wire_text(j->end.cause);
                d->job.why = wire_text(j->end.why);
                d->job.remedy = wire_text(j->end.remedy);
                d->job.step_known = j->end.step_known;
                d->job.last_step = j->end.last_step;
                d->job.code = wire_text(j->end.code);
                d->job.status = wire_text(j->end.status);
                d->job.ended_real_usec = j->end.real;
        }
        return &d->job;
}

static void list_one(const struct job *j, void *userdata) {
        struct listing *l = userdata;
        size_t *n = &l->list->reply.n_job;

        if (*n >= JOB_LIST_MAX || (l->name[0] && !streq(l->name, j->name)))
                return;
        l->list->jobs[*n] = describe(l->runs, j);
        if (l->list->jobs[*n])
                (*n)++;
        else
                l->failed = true;
}

int job_list_make(struct runs *r, const char *name, struct job_list *ret) {
        struct listing l = { .runs = r, .name = name, .list = ret };

        local__jobs_reply__init(&ret->reply);
        ret->reply.job = ret->jobs;
        runs_visit(r, list_one, &l);
        if (l.failed)
                return -ENOMEM;
        return ret->reply.n_job == 0 && name[0] ? -ENOENT : 0;
}

void job_list_clear(struct job_list *l) {
        for (size_t i = 0; i < l->reply.n_job; i++)
                free(l->jobs[i]); /* the first member of what describe() made */
        l->reply.n_job = 0;
}
