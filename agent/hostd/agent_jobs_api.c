/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/jobs and DELETE /v1/jobs/NAME: a run of this host, asked of tpu-launchd, to which we are principal remote. Runs
 * over slices are asked of a collector: refused here, with that. And GET /v1/runs: what the registry told of runs over slices.
 * Starting and stopping is for those who may order only: what is asked of us here has no other credentials than ours.
 */
#include "agent_calls.h"
#include "agent_parts.h"
#include "job_body.h"
#include "paths.h"

#define START_TIME (120 * USEC_PER_SEC) /* starting a unit waits for its exec, and for the end of an older one */
#define STOP_TIME (150 * USEC_PER_SEC)  /* longer than any unit's own grace by default */
#define WAITING_MAX 16

struct job_call {
        struct agent *agent;
        struct api_call *call; /* NULL: the client is gone */
        struct job_call *next, **previous;
        struct api_caller caller;
        char what[80], name[64], serial[20];
        struct local_call *launchd;
        bool stops;
};

static void job_call_free(struct job_call *c) {
        *c->previous = c->next;
        if (c->next)
                c->next->previous = c->previous;
        c->launchd = local_call_free(c->launchd);
        free(c);
}

static struct job_call *job_call_new(struct agent *a, const struct api_request *r, const char *what) {
        struct job_call *c;
        size_t n = 0;

        for (c = a->job_calls; c; c = c->next)
                n++;
        c = n < WAITING_MAX ? calloc(1, sizeof(*c)) : NULL;
        if (!c)
                return NULL;
        *c = (struct job_call){ .agent = a, .call = r->call, .caller = r->caller, .next = a->job_calls, .previous = &a->job_calls };
        (void) snprintf(c->what, sizeof(c->what), "%s", what);
        if (c->next)
                c->next->previous = &c->next;
        a->job_calls = c;
        return c;
}

void agent_jobs_abandoned(struct agent *a, const struct api_call *call) {
        for (struct job_call *c = a->job_calls; c; c = c->next)
                if (c->call == call)
                        c->call = NULL;
}

void agent_jobs_clear(struct agent *a) {
        while (a->job_calls)
                job_call_free(a->job_calls);
}

/* --- Answers ------------------------------------------------------------------------------------------- */

unsigned agent_status_of(int error) {
        switch (error) {
        case -EACCES:
        case -EPERM:
                return 403;
        case -ENOENT:
        case -ESRCH:
                return 404;
        case -EINVAL:
        case -E2BIG:
        case -EBADMSG:
                return 400;
        case -EEXIST:
        case -ESTALE:
        case -EBUSY:
        case -EALREADY:
        case -EOPNOTSUPP:
                return 409;
        case -EINPROGRESS:
        case -EHOSTUNREACH:
        case -ECANCELED:
                return 503;
        default:
                return 500;
        }
}

/* Answers and forgets. v is taken over; NULL with an error. */
static void finish(struct job_call *c, unsigned status, json_t *v, const char *error, const char *remedy) {
        struct api_answer answer;
        char result[200];

        (void) snprintf(result, sizeof(result), "%s%.180s", error ? "refused: " : "done", error ? error : "");
        if (error)
                agent_audit_refusal(c->agent, c->what, &c->caller, result);
        else
                agent_audit(c->agent, c->what, &c->caller, result);
        if (c->call) {
                (void) (error ? agent_answer_error(&answer, status, remedy, "%s", error)
                              : agent_answer_json(&answer, status, v));
                api_call_answer(c->call, &answer);
        } else
                json_decref(v);
        job_call_free(c);
}

static int refuse(struct agent *a, const struct api_request *r, const char *what, unsigned status, const char *error,
                  const char *remedy, struct api_answer *ret) {
        agent_audit_refusal(a, what, &r->caller, error);
        return agent_answer_error(ret, status, remedy, "%s", error);
}

static json_t *started(const char *name, const char *serial, uint64_t generation, const char *unit, const char *state,
                       bool already, const char *allocator, json_t *warnings) {
        return json_pack("{s:s, s:s, s:I, s:s, s:s, s:b, s:s, s:o}", "name", name, "serial", serial, "generation",
                         (json_int_t) generation, "unit", unit, "state", state, "already", already, "malloc", allocator,
                         "warnings", warnings);
}

/* --- On this host -------------------------------------------------------------------------------------- */

static const char *launchd_socket(const struct agent *a) {
        return a->settings.launchd_socket[0] ? a->settings.launchd_socket :
               a->host->real_root            ? PATH_LAUNCHD_SOCKET :
                                               NULL;
}

static json_t *reply_json(const struct local_answer *a, const char *serial, bool *ret_already) {
        Local__RunReply *m = local__run_reply__unpack(NULL, a->len, a->data);
        json_t *warnings = json_array(), *v = NULL;

        for (size_t i = 0; m && i < m->n_conflict; i++)
                (void) json_array_append_new(warnings, json_string(m->conflict[i])); /* then one warning less is told */
        for (size_t i = 0; m && i < m->n_warning; i++)
                if (m->warning[i][0])
                        (void) json_array_append_new(warnings, json_string(m->warning[i]));
        if (m) {
                *ret_already = m->already;
                v = started(m->name, serial, m->generation, m->unit, m->state[0] ? m->state : "running", m->already, m->malloc,
                            warnings);
                local__run_reply__free_unpacked(m, NULL);
        } else
                json_decref(warnings);
        return v;
}

static void on_launchd(const struct local_answer *l, void *userdata) {
        struct job_call *c = userdata;
        bool already = false;
        json_t *v;

        jobs_ask(c->agent->jobs);
        if (l->no_answer) {
                finish(c, 503, NULL, l->text, l->remedy);
                return;
        }
        if (l->error < 0) {
                finish(c, agent_status_of(l->error), NULL, l->text, l->remedy);
                return;
        }
        if (c->stops)
                v = json_pack("{s:s, s:s}", "name", c->name, "state", "exited");
        else
                v = reply_json(l, c->serial, &already);
        if (v)
                finish(c, c->stops || already ? 200 : 201, v, NULL, NULL);
        else
                finish(c, 503, NULL, "tpu-launchd's answer makes no sense", "tpu-launchd --version; tpu-hostd --version");
}

static int ask_launchd(struct job_call *c, uint16_t kind, const ProtobufCMessage *m, uint16_t want, usec_t timeout,
                       struct api_answer *ret) {
        struct agent *a = c->agent;
        int r = local_call_new(a->event,
                               &(struct local_question){ "tpu-launchd", launchd_socket(a), kind,
                                                         want, m, timeout },
                               on_launchd, c, &c->launchd);

        if (r >= 0)
                return 1;
        job_call_free(c);
        return agent_answer_error(ret, 500, NULL, "tpu-launchd cannot be asked: %s", strerror(-r));
}

/* As tpuctl run does where a person runs it: what is ordered bars new runs. */
static const struct order *order_against(struct agent *a) {
        const struct order *drain = orders_find(&a->order_list, ORDER_DRAIN);

        return drain ? drain : orders_find(&a->order_list, ORDER_CORDON);
}

static int start_here(struct job_call *c, const struct job_body *b, struct api_answer *ret) {
        const struct order *o = order_against(c->agent);
        char why[ORDER_REASON_MAX + 64];

        if (o) {
                (void) snprintf(why, sizeof(why), "this host is %s: %s", o->kind == ORDER_DRAIN ? "draining" : "cordoned", o->reason);
                agent_audit_refusal(c->agent, c->what, &c->caller, why);
                job_call_free(c);
                return agent_answer_error(ret, 409, "tpuctl uncordon, on this host", "%s", why);
        }
        (void) snprintf(c->serial, sizeof(c->serial), "%.19s", run_text(b->json, "serial"));
        return ask_launchd(c, LOCAL__KIND__KIND_RUN_REQUEST, &b->message.base, LOCAL__KIND__KIND_RUN_REPLY, START_TIME, ret);
}

/* --- Calls --------------------------------------------------------------------------------------------- */

static int not_for_you(struct agent *a, const struct api_request *r, const char *what, struct api_answer *ret) {
        return refuse(a, r, what, 403, "only root may start and stop runs by tpu-hostd: it asks with its own rights",
                      "as yourself: tpuctl run, tpuctl stop", ret);
}

static int not_here(struct agent *a, const struct api_request *r, const char *what, struct api_answer *ret) {
        return refuse(a, r, what, 409, "runs over slices are started and stopped by the registry, not by a host",
                      "ask the collector: tpuctl run --collector URL, POST or DELETE of /api/v1/runs there", ret);
}

int agent_post_job(struct agent *a, const struct api_request *r, struct api_answer *ret) {
        _cleanup_job_body_ struct job_body b = { 0 };
        char why[JOB_BODY_WHY_MAX], what[80] = "POST /v1/jobs";
        struct job_call *c;

        if (!agent_caller_may_order(&r->caller))
                return not_for_you(a, r, what, ret);
        if (job_body_parse(r->body ? r->body : "", r->body_len, &b, why) < 0)
                return refuse(a, r, what, 400, why, "docs/api.md, POST /v1/jobs", ret);
        (void) snprintf(what, sizeof(what), "POST /v1/jobs %.41s", run_text(b.json, "name"));
        if (b.over_slices)
                return not_here(a, r, what, ret);
        c = job_call_new(a, r, what);
        if (!c)
                return refuse(a, r, what, 503, "16 starts and stops are under way", "try again in a minute", ret);
        (void) snprintf(c->name, sizeof(c->name), "%s", run_text(b.json, "name"));
        return start_here(c, &b, ret);
}

/* The record of a run over slices that has not ended. */
static const json_t *find_run(const struct agent *a, const char *name) {
        const json_t *record = a->enrollment && a->enrollment->parts ? agent_parts_find(a->enrollment->parts, name) : NULL;

        return record && !streq(run_text(record, "state"), "ended") ? record : NULL;
}

int agent_delete_job(struct agent *a, const struct api_request *r, struct api_answer *ret) {
        const char *name = r->path + strlen("/v1/jobs/");
        Local__StopRequest m = LOCAL__STOP_REQUEST__INIT;
        struct job_call *c;
        char what[80];

        (void) snprintf(what, sizeof(what), "DELETE /v1/jobs/%.41s", job_name_valid(name) ? name : "?");
        if (!agent_caller_may_order(&r->caller))
                return not_for_you(a, r, what, ret);
        if (!job_name_valid(name))
                return agent_answer_error(ret, 404, "GET /v1/jobs has the names", "the path holds no name of a run");
        if (find_run(a, name))
                return not_here(a, r, what, ret);
        c = job_call_new(a, r, what);
        if (!c)
                return refuse(a, r, what, 503, "16 starts and stops are under way", "try again in a minute", ret);
        c->stops = true;
        (void) snprintf(c->name, sizeof(c->name), "%s", name);
        m.name = c->name;
        return ask_launchd(c, LOCAL__KIND__KIND_STOP_REQUEST, &m.base, LOCAL__KIND__KIND_STOP_REPLY, STOP_TIME, ret);
}

int agent_get_runs(struct agent *a, const struct api_request *r, struct api_answer *ret) {
        const struct agent_registry *g = a->enrollment;

        (void) r;
        return agent_answer_json(ret, 200,
                                 json_pack("{s:s, s:o}", "registry", g ? registry_kind_name(g->kind) : "none", "runs",
                                           g && g->parts ? agent_parts_records(g->parts) : json_array()));
}
