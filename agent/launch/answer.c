/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"

#include "holders.h"
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

void answer_run(struct frame_peer *peer, const struct kept_run *kept, bool already, char **conflicts) {
        Local__RunReply reply = LOCAL__RUN_REPLY__INIT;
        char unit[RUN_UNIT_MAX], *warning = wire_text(kept->warning);

        reply.name = wire_text(kept->name);
        reply.unit = wire_text(run_unit(kept->name, unit));
        reply.malloc = wire_text(kept->malloc);
        reply.already = already;
        reply.state = wire_text(launch_state_name(kept->state));
        reply.generation = kept->generation;
        reply.image_id = wire_text(kept->image_id);
        reply.warning = &warning;
        reply.n_warning = kept->warning[0] != '\0';
        reply.conflict = conflicts;
        while (conflicts && conflicts[reply.n_conflict])
                reply.n_conflict++;
        answer(peer, LOCAL__KIND__KIND_RUN_REPLY, &reply.base);
}

int answer_owners(const struct device_owners *o, struct frame_peer *peer, struct problem *p) {
        Local__OwnersReply reply = LOCAL__OWNERS_REPLY__INIT;
        Local__Owner items[DEVICE_OWNERS_MAX], *list[DEVICE_OWNERS_MAX];
        Local__PortOwner ports[PORT_OWNERS_MAX], *listening[PORT_OWNERS_MAX];

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
        for (size_t i = 0; i < o->n_ports; i++) {
                local__port_owner__init(&ports[i]);
                ports[i].port = o->ports[i].port;
                ports[i].pid = o->ports[i].pid;
                ports[i].uid = o->ports[i].uid;
                ports[i].unit = wire_text(o->ports[i].unit);
                ports[i].command = wire_text(o->ports[i].command);
                listening[i] = &ports[i];
        }
        reply.port = listening;
        reply.n_port = o->n_ports;
        reply.incomplete = o->incomplete;
        answer(peer, LOCAL__KIND__KIND_OWNERS_REPLY, &reply.base);
        return 0;
}

/* --- Runs ---------------------------------------------------------------------------------------------- */

#define COMMAND_TEXT_MAX 256
#define IMAGE_TEXT_MAX 256

struct listing {
        struct runs *runs;
        const char *name;
        uid_t uid;
        struct run_list *list;
        bool failed;
};

/* Everything is borrowed from kept, but the command. */
static Local__Run *describe_run(const struct runs *r, const struct kept_run *kept) {
        struct {
                Local__Run run;
                char unit[RUN_UNIT_MAX], command[COMMAND_TEXT_MAX], image[IMAGE_TEXT_MAX];
        } *d = malloc(sizeof(*d));

        if (!d)
                return NULL;
        local__run__init(&d->run);
        d->run.name = wire_text(kept->name);
        d->run.unit = wire_text(run_unit(kept->name, d->unit));
        d->run.state = wire_text(kept_run_shown_state(kept));
        d->run.framework = kept->spec->framework;
        d->run.malloc = wire_text(kept->malloc);
        d->run.user = kept->user;
        d->run.command = wire_text(run_command(kept, d->command, sizeof(d->command)));
        d->run.started_real_usec = kept->started_real;
        d->run.main_pid = kept->main_pid;
        d->run.processes = runs_processes(r, kept);
        if (kept->control_group)
                d->run.control_group = kept->control_group;
        d->run.generation = kept->generation;
        d->run.intent = wire_text(kept->intent);
        d->run.step_expression = wire_text(kept_run_variable(kept, STEP_EXPRESSION_VARIABLE));
        d->run.restarts = kept->restarts.done;
        d->run.restarts_max = kept->spec->restarts;
        d->run.preempted_real_usec = kept->preempted_real;
        if (kept_run_has_image(kept)) {
                (void) snprintf(d->image, sizeof(d->image), "%s %s (%.12s)", kept->spec->engine,
                                kept->spec->image, kept->image_id);
                d->run.image = wire_text(d->image);
        }
        if (kept->held) {
                d->run.adopted = true;
                d->run.unit = wire_text(kept->held->unit);
                d->run.container = wire_text(kept->held->container);
                d->run.devices = wire_text(kept->held->devices);
        }
        if (kept->state == LAUNCH_EXITED || kept->state == LAUNCH_WAITING) {
                d->run.cause = wire_text(kept->end.cause);
                d->run.why = wire_text(kept->end.why);
                d->run.remedy = wire_text(kept->end.remedy);
                d->run.lost_peer = wire_text(kept->end.lost_peer);
                d->run.step_known = kept->end.step_known;
                d->run.last_step = kept->end.last_step;
                d->run.code = wire_text(kept->end.code);
                d->run.status = wire_text(kept->end.status);
                d->run.ended_real_usec = kept->end.real;
        }
        return &d->run;
}

static void list_one(const struct kept_run *kept, void *userdata) {
        struct listing *l = userdata;
        size_t *n = &l->list->reply.n_run;

        if (*n >= RUN_LIST_MAX || (l->name[0] && !streq(l->name, kept->name)) ||
            !kept_run_is_shown_to(kept, l->uid))
                return;
        l->list->runs[*n] = describe_run(l->runs, kept);
        if (l->list->runs[*n])
                (*n)++;
        else
                l->failed = true;
}

int run_list_make(struct runs *r, const char *name, uid_t uid, struct run_list *ret) {
        struct listing l = { .runs = r, .name = name, .uid = uid, .list = ret };

        local__run_list_reply__init(&ret->reply);
        ret->reply.run = ret->runs;
        runs_visit(r, list_one, &l);
        if (l.failed)
                return -ENOMEM;
        return ret->reply.n_run == 0 && name[0] ? -ENOENT : 0;
}

void run_list_clear(struct run_list *l) {
        for (size_t i = 0; i < l->reply.n_run; i++)
                free(l->runs[i]); /* the first member of what describe_run() made */
        l->reply.n_run = 0;
}

/* --- Stacks -------------------------------------------------------------------------------------------- */

static int refuse_capture(const struct kept_run *kept, const struct capture_result *r, struct problem *p) {
        if (r->error == -ETIMEDOUT)
                return problem_set(
                        p, r->error, "see: ps -eo pid,stat,wchan:30,comm",
                        "run %s: its stacks did not come within %u s", kept->name,
                        (unsigned) ((r->native ? CAPTURE_NATIVE_TIMEOUT : CAPTURE_TIMEOUT) / USEC_PER_SEC));
        if (r->error == -E2BIG)
                return problem_set(p, r->error, "is tpu-stack of the same version?",
                                   "run %s: its stacks are more than can be sent", kept->name);
        return problem_set(p, r->error, "see: journalctl -b -u tpu-launchd", "run %s: tpu-stack failed",
                           kept->name);
}

int answer_capture(struct frame_peer *peer, const struct kept_run *kept, const struct capture_result *r,
                   struct problem *p) {
        Local__CaptureReply reply = LOCAL__CAPTURE_REPLY__INIT;

        if (r->error < 0)
                return refuse_capture(kept, r, p);
        reply.name = wire_text(kept->name);
        reply.capture.data = (uint8_t *) (uintptr_t) r->data; /* only read */
        reply.capture.len = r->len;
        reply.taken_real_usec = r->taken_real;
        reply.native = r->native;
        reply.generation = kept->generation;
        answer(peer, LOCAL__KIND__KIND_CAPTURE_REPLY, &reply.base);
        return 0;
}

/* --- The environment of a run -------------------------------------------------------------------------- */

bool variable_is_secret(const char *assignment) {
        return name_is_secret(assignment, strcspn(assignment, "="));
}

/* Nobody but root and the run's user, whatever the authority file grants: a value may be anything. */
static int check_environment_rights(const struct runs *r, const struct kept_run *kept,
                                    const struct caller *c, const char *name, struct problem *p) {
        if (c->uid != 0 && (!kept || c->uid != kept->uid || c->remote))
                return problem_set(p, -EACCES, "as root, or as the user of the run",
                                   "user %s may not see the environment of run %.64s", c->name, name);
        if (!kept)
                return no_such_run(r, name, p);
        return 0;
}

bool environment_is_anothers(const struct runs *r, const struct caller *c, const char *name) {
        const struct kept_run *kept = runs_find(r, name);

        return kept && kept->uid != c->uid;
}

int answer_environment(const struct runs *r, struct frame_peer *peer, const struct caller *c,
                       const char *name, struct problem *p) {
        Local__EnvironmentReply reply = LOCAL__ENVIRONMENT_REPLY__INIT;
        const struct kept_run *kept = runs_find(r, name);
        char **shown, **hidden;
        size_t n = 0;
        int k = check_environment_rights(r, kept, c, name, p);

        if (k < 0)
                return k;
        while (kept->env && kept->env[n])
                n++;
        shown = calloc(n + 1, sizeof(*shown));
        hidden = calloc(n + 1, sizeof(*hidden));
        for (size_t i = 0; shown && hidden && i < n && k == 0; i++)
                if (!variable_is_secret(kept->env[i]))
                        shown[reply.n_env++] = kept->env[i];
                else {
                        hidden[reply.n_hidden] = strndup(kept->env[i], strcspn(kept->env[i], "="));
                        k = hidden[reply.n_hidden] ? 0 : -ENOMEM;
                        reply.n_hidden += k == 0;
                }
        reply.name = wire_text(kept->name);
        reply.generation = kept->generation;
        reply.env = shown;
        reply.hidden = hidden;
        if (!shown || !hidden || k < 0)
                k = problem_no_memory(p);
        else
                answer(peer, LOCAL__KIND__KIND_ENVIRONMENT_REPLY, &reply.base);
        for (size_t i = 0; i < reply.n_hidden; i++)
                free(hidden[i]);
        free(hidden);
        free(shown);
        return k;
}
