/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"

#include "log.h"
#include "texts.h"
#include "steps.h"

void answer(struct frame_peer *p, uint16_t kind, const ProtobufCMessage *m) {
        int r = frame_peer_send(p, kind, m);

        if (r < 0)
                (void) log_debug_errno(r, "a local caller did not take its answer: %m");
}

void answer_problem(struct frame_peer *peer, int error, const struct problem *p) {
        Local__Error e = LOCAL__ERROR__INIT;

        e.code = abs(error);
        e.text = wire_text(p->text);
        e.remedy = wire_text(p->remedy);
        answer(peer, LOCAL__KIND__KIND_ERROR, &e.base);
}

void answer_run(struct frame_peer *peer, const struct job *j, bool already, char **conflicts) {
        Local__RunReply reply = LOCAL__RUN_REPLY__INIT;
        char unit[JOB_UNIT_MAX], *warning = wire_text(j->warning);

        reply.name = wire_text(j->name);
        reply.unit = wire_text(job_unit(j->name, unit));
        reply.malloc = wire_text(j->malloc);
        reply.already = already;
        reply.state = wire_text(job_state_name(j->state));
        reply.generation = j->generation;
        reply.warning = &warning;
        reply.n_warning = j->warning[0] != '\0';
        reply.conflict = conflicts;
        while (conflicts && conflicts[reply.n_conflict])
                reply.n_conflict++;
        answer(peer, LOCAL__KIND__KIND_RUN_REPLY, &reply.base);
}

int answer_owners(const struct device_owners *o, struct frame_peer *peer, struct problem *p) {
        Local__OwnersReply reply = LOCAL__OWNERS_REPLY__INIT;
        Local__Owner items[DEVICE_OWNERS_MAX], *list[DEVICE_OWNERS_MAX];

        if (o->error < 0)
                return problem_set(p, o->error, "see: journalctl -u tpu-launchd", "%s", o->why);
        for (size_t i = 0; i < o->n; i++) {
                local__owner__init(&items[i]);
                items[i].device = wire_text(o->owners[i].device);
                items[i].pid = o->owners[i].pid;
                items[i].uid = o->owners[i].uid;
                items[i].unit = wire_text(o->owners[i].unit);
                items[i].command = wire_text(o->owners[i].command);
                list[i] = &items[i];
        }
        reply.owner = list;
        reply.n_owner = o->n;
        reply.incomplete = o->incomplete;
        answer(peer, LOCAL__KIND__KIND_OWNERS_REPLY, &reply.base);
        return 0;
}

/* --- Runs ---------------------------------------------------------------------------------------------- */

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
        d->job.framework = j->spec->framework;
        d->job.malloc = wire_text(j->malloc);
        d->job.user = j->user;
        d->job.command = wire_text(job_command(j, d->command, sizeof(d->command)));
        d->job.started_real_usec = j->started_real;
        d->job.main_pid = j->main_pid;
        d->job.processes = runs_processes(r, j);
        if (j->control_group)
                d->job.control_group = j->control_group;
        d->job.generation = j->generation;
        d->job.intent = wire_text(j->intent);
        d->job.slice = wire_text(j->slice);
        d->job.worker = wire_text(j->worker);
        d->job.step_expression = wire_text(variable(j, STEP_EXPRESSION_VARIABLE));
        d->job.restarts = j->restarts.done;
        d->job.restarts_max = j->spec->restarts;
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

/* --- Stacks -------------------------------------------------------------------------------------------- */

static int problem_of(const struct job *j, const struct capture_result *r, struct problem *p) {
        if (r->error == -ETIMEDOUT)
                return problem_set(
                        p, r->error, "see: ps -eo pid,stat,wchan:30,comm",
                        "run %s: its stacks did not come within %u s", j->name,
                        (unsigned) ((r->native ? CAPTURE_NATIVE_TIMEOUT : CAPTURE_TIMEOUT) / USEC_PER_SEC));
        if (r->error == -E2BIG)
                return problem_set(p, r->error, "is tpu-stack of the same version?",
                                   "run %s: its stacks are more than can be sent", j->name);
        return problem_set(p, r->error, "see: journalctl -b -u tpu-launchd", "run %s: tpu-stack failed",
                           j->name);
}

int answer_capture(struct frame_peer *peer, const struct job *j, const struct capture_result *r,
                   struct problem *p) {
        Local__CaptureReply reply = LOCAL__CAPTURE_REPLY__INIT;

        if (r->error < 0)
                return problem_of(j, r, p);
        reply.name = wire_text(j->name);
        reply.capture.data = (uint8_t *) (uintptr_t) r->data; /* only read */
        reply.capture.len = r->len;
        reply.taken_real_usec = r->taken_real;
        reply.native = r->native;
        answer(peer, LOCAL__KIND__KIND_CAPTURE_REPLY, &reply.base);
        return 0;
}

/* --- The environment of a run -------------------------------------------------------------------------- */

bool variable_is_secret(const char *assignment) {
        return name_is_secret(assignment, strcspn(assignment, "="));
}

/* Nobody but root and the run's user, whatever the authority file grants: a value may be anything. */
static int check_rights(const struct job *j, const struct caller *c, const char *name, struct problem *p) {
        if (c->uid != 0 && (!j || c->uid != j->uid || c->remote))
                return problem_set(p, -EACCES, "as root, or as the user of the run",
                                   "user %s may not see the environment of run %.64s", c->name, name);
        if (!j)
                return no_such_run(name, p);
        return 0;
}

bool environment_is_anothers(const struct runs *r, const struct caller *c, const char *name) {
        const struct job *j = runs_find(r, name);

        return j && j->uid != c->uid;
}

int answer_environment(const struct runs *r, struct frame_peer *peer, const struct caller *c,
                       const char *name, struct problem *p) {
        Local__EnvironmentReply reply = LOCAL__ENVIRONMENT_REPLY__INIT;
        const struct job *j = runs_find(r, name);
        char **shown, **hidden;
        size_t n = 0;
        int k = check_rights(j, c, name, p);

        if (k < 0)
                return k;
        while (j->env && j->env[n])
                n++;
        shown = calloc(n + 1, sizeof(*shown));
        hidden = calloc(n + 1, sizeof(*hidden));
        for (size_t i = 0; shown && hidden && i < n && k == 0; i++)
                if (!variable_is_secret(j->env[i]))
                        shown[reply.n_env++] = j->env[i];
                else {
                        hidden[reply.n_hidden] = strndup(j->env[i], strcspn(j->env[i], "="));
                        k = hidden[reply.n_hidden] ? 0 : -ENOMEM;
                        reply.n_hidden += k == 0;
                }
        reply.name = wire_text(j->name);
        reply.generation = j->generation;
        reply.env = shown;
        reply.hidden = hidden;
        if (!shown || !hidden || k < 0)
                k = problem_set(p, -ENOMEM, "try again", "out of memory");
        else
                answer(peer, LOCAL__KIND__KIND_ENVIRONMENT_REPLY, &reply.base);
        for (size_t i = 0; i < reply.n_hidden; i++)
                free(hidden[i]);
        free(hidden);
        free(shown);
        return k;
}
