/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/runs and DELETE /v1/runs/NAME: a run of this host, asked of tpu-launchd, to which we are
 * principal remote. Runs over slices are asked of a collector: refused here, with that. Starting and
 * stopping is for those who may order only: what is asked of us here has no other credentials than ours.
 */
#include "calls.h"
#include "identity_facts.h"
#include "json_text.h"
#include "local_call.h"
#include "member.h"
#include "member_state.h"
#include "orders_part.h"
#include "progress_part.h"
#include "run_record.h"

#define START_TIME (120 * USEC_PER_SEC) /* a unit waits for its exec, and for the end of a previous one */
#define STOP_TIME (150 * USEC_PER_SEC)  /* longer than any unit's own grace by default */
#define WAITING_MAX 16

struct run_call {
        struct late_call call; /* the first member */
        char name[64], serial[64];
        struct local_call *launchd;
        bool stops;
};

static void run_call_clear(struct late_call *call) {
        struct run_call *c = (struct run_call *) call;

        c->launchd = local_call_free(c->launchd);
}

static struct run_call *run_call_new(struct bus *b, const struct http_request *r, const char *what) {
        struct run_call *c;

        c = late_calls(b, run_call_clear) < WAITING_MAX ? late_call_new(b, r, sizeof(*c), what) : NULL;
        if (c)
                c->call.clear = run_call_clear;
        return c;
}

/* --- Answers ------------------------------------------------------------------------------------------- */

/* The HTTP status that says what went wrong at tpu-launchd (-errno). */
static unsigned http_status_of(int error) {
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
static void finish_call(struct run_call *c, unsigned status, json_t *v, const char *error,
                        const char *remedy) {
        struct http_reply answer;
        char result[200];

        (void) snprintf(result, sizeof(result), "%s%.180s", error ? "refused: " : "done",
                        error ? error : "");
        if (error)
                call_audit_refusal(c->call.bus, c->call.what, &c->call.caller, result);
        else
                call_audit(c->call.bus, c->call.what, &c->call.caller, result);
        (void) (error ? answer_error(&answer, status, remedy, "%s", error)
                      : answer_json(&answer, status, v));
        late_call_answer(&c->call, &answer);
}

/* --- On this host -------------------------------------------------------------------------------------- */

static json_t *reply_json(const struct local_answer *a, const char *serial, bool *ret_already) {
        Local__RunReply *m = local__run_reply__unpack(NULL, a->len, a->data);
        json_t *warnings = json_array(), *v = NULL;

        for (size_t i = 0; m && i < m->n_conflict; i++)
                (void) json_array_append_new(warnings, json_string(m->conflict[i])); /* else one less */
        for (size_t i = 0; m && i < m->n_warning; i++)
                if (m->warning[i][0])
                        (void) json_array_append_new(warnings, json_string(m->warning[i]));
        if (m) {
                *ret_already = m->already;
                v = json_pack("{s:s, s:s, s:I, s:s, s:s, s:b, s:s, s:o}", "name", m->name, "serial", serial,
                              "generation", (json_int_t) m->generation, "unit", m->unit, "state",
                              m->state[0] ? m->state : "running", "already", m->already, "malloc", m->malloc,
                              "warnings", warnings);
                local__run_reply__free_unpacked(m, NULL);
        } else
                json_decref(warnings);
        return v;
}

static void on_launchd(const struct local_answer *l, void *userdata) {
        struct run_call *c = userdata;
        bool already = false;
        json_t *v;

        bus_tell(c->call.bus, BUS_ASK_RUNS);
        if (l->no_answer) {
                finish_call(c, 503, NULL, l->text, l->remedy);
                return;
        }
        if (l->error < 0) {
                finish_call(c, http_status_of(l->error), NULL, l->text, l->remedy);
                return;
        }
        if (c->stops)
                v = json_pack("{s:s, s:s}", "name", c->name, "state", "exited");
        else
                v = reply_json(l, c->serial, &already);
        if (v)
                finish_call(c, c->stops || already ? 200 : 201, v, NULL, NULL);
        else
                finish_call(c, 503, NULL, "tpu-launchd's answer makes no sense",
                            "tpu-launchd --version; tpu-hostd --version");
}

static int ask_launchd(struct run_call *c, uint16_t kind, const ProtobufCMessage *m, uint16_t want,
                       usec_t timeout, struct http_reply *ret) {
        struct bus *b = c->call.bus;
        const struct local_question q = { "tpu-launchd", bus_launchd_socket(b), kind, want, m, timeout };
        int r = local_call_new(b->event, &q, on_launchd, c, &c->launchd);

        if (r >= 0)
                return 1;
        late_call_free(&c->call);
        return answer_error(ret, 500, NULL, "tpu-launchd cannot be asked: %s", strerror(-r));
}

/* As tpuctl run does where a person runs it: what is ordered bars new runs. */
static const struct order *order_against(struct bus *b) {
        const struct order *drain = orders_find(&b->orders, ORDER_DRAIN);

        return drain ? drain : orders_find(&b->orders, ORDER_CORDON);
}

static int start_here(struct run_call *c, const struct run_body *b, struct http_reply *ret) {
        Local__RunRequest m = LOCAL__RUN_REQUEST__INIT;
        struct identity_facts facts;
        const struct order *o = order_against(c->call.bus);
        char why[ORDER_REASON_MAX + 64];

        if (o) {
                (void) snprintf(why, sizeof(why), "this host is %s: %s",
                                o->kind == ORDER_DRAIN ? "draining" : "cordoned", o->reason);
                call_audit_refusal(c->call.bus, c->call.what, &c->call.caller, why);
                late_call_free(&c->call);
                return answer_error(ret, 409, "tpuctl uncordon, on this host", "%s", why);
        }
        (void) snprintf(c->serial, sizeof(c->serial), "%s", b->serial);
        identity_facts_fill(&c->call.bus->identity, &facts);
        m.spec = b->spec;
        m.world = &facts.world;
        m.generation = b->generation;
        m.intent = c->serial;
        return ask_launchd(c, LOCAL__KIND__KIND_RUN_REQUEST, &m.base, LOCAL__KIND__KIND_RUN_REPLY,
                           START_TIME, ret);
}

/* --- Calls --------------------------------------------------------------------------------------------- */

static int refuse_caller(struct bus *b, const struct http_request *r, const char *what,
                         struct http_reply *ret) {
        return call_refuse(b, r, ret, what, 403,
                            "only root may start and stop runs by tpu-hostd: it asks with its own rights",
                            "as yourself: tpuctl run, tpuctl stop");
}

static int refuse_slices(struct bus *b, const struct http_request *r, const char *what,
                         struct http_reply *ret) {
        return call_refuse(b, r, ret, what, 409,
                            "runs over slices are started and stopped by the registry, not by a host",
                            "ask the collector: tpuctl run --collector URL, POST or DELETE of /api/v1/runs "
                            "there");
}

static int refuse_more(struct bus *b, const struct http_request *r, const char *what,
                       struct http_reply *ret) {
        return call_refuse(b, r, ret, what, 503, "16 starts and stops are in progress",
                           "try again in a minute");
}

static int post_run(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = *(struct bus **) self; /* the first member of each part's state */
        _cleanup_run_body_ struct run_body body = { 0 };
        char why[RUN_WHY_MAX], what[80] = "POST /v1/runs";
        struct run_call *c;

        if (!caller_may_order(r->caller))
                return refuse_caller(b, r, what, ret);
        if (run_body_parse(r->body ? (const char *) r->body : "", r->len, &body, why) < 0)
                return call_refuse(b, r, ret, what, 400, why,
                                   "see /usr/share/doc/tpu-hostd/api.md, POST /v1/runs");
        if (body.over_slices)
                return refuse_slices(b, r, what, ret);
        (void) snprintf(what, sizeof(what), "POST /v1/runs %.41s", body.spec->name);
        c = run_call_new(b, r, what);
        if (!c)
                return refuse_more(b, r, what, ret);
        (void) snprintf(c->name, sizeof(c->name), "%s", body.spec->name);
        return start_here(c, &body, ret);
}

/* A run over slices that has not ended. */
static bool is_of_registry(const struct member_state *m, const char *name) {
        const json_t *record = run_parts_find(m, name);

        return record && !streq(json_text_of(record, "state"), "ended");
}

static int delete_run(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = *(struct bus **) self; /* the first member of each part's state */
        const char *name = route_part(r, 0);
        Local__StopRequest m = LOCAL__STOP_REQUEST__INIT;
        struct run_call *c;
        char what[80];

        (void) snprintf(what, sizeof(what), "DELETE /v1/runs/%.41s", run_name_is_valid(name) ? name : "?");
        if (!caller_may_order(r->caller))
                return refuse_caller(b, r, what, ret);
        if (!run_name_is_valid(name))
                return answer_error(ret, 404, "GET /v1/runs has the names",
                                    "the path holds no name of a run");
        if (is_of_registry(self, name))
                return refuse_slices(b, r, what, ret);
        c = run_call_new(b, r, what);
        if (!c)
                return refuse_more(b, r, what, ret);
        c->stops = true;
        (void) snprintf(c->name, sizeof(c->name), "%s", name);
        m.name = c->name;
        return ask_launchd(c, LOCAL__KIND__KIND_STOP_REQUEST, &m.base, LOCAL__KIND__KIND_STOP_REPLY,
                           STOP_TIME, ret);
}

/* What tpu-launchd and the logs of this host say of its runs, and the registry's records of those over
 * slices. */
static int get_runs(void *self, const struct http_request *r, struct http_reply *ret) {
        const struct member_state *m = self;

        (void) r;
        return answer_json(ret, 200,
                           json_pack("{s:o, s:s, s:o}", "runs", progress_runs_to_json(m->bus), "registry",
                                     registry_kind_name(m->who.kind), "records", run_parts_records(m)));
}

const struct part_route run_calls[] = {
        { ROUTE("GET", "/v1/runs"), .call = get_runs },
        { ROUTE("POST", "/v1/runs"), .takes_body = true, .call = post_run },
        { ROUTE("DELETE", "/v1/runs/NAME"), .call = delete_run },
        PART_ROUTES_END,
};
