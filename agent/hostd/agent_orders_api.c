/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PUT and DELETE of /v1/cordon, /v1/drain, /v1/observe and /v1/silence. An order is answered once it is on
 * the disk. Only root may order: an order is about everybody's runs, a member of tpu-run acts on its own
 * only.
 */
#include <fcntl.h>
#include <pwd.h>

#include "agent_orders.h"
#include "paths.h"
#include "http_routes.h"

/* --- Who ----------------------------------------------------------------------------------------------- */

/* From /etc/passwd alone: a name service may block. */
static void user_text(const struct agent *a, uid_t uid, char *buf, size_t size) {
        _cleanup_close_ int fd = host_open_file(a->host, "/etc/passwd", O_RDONLY);
        _cleanup_fclose_ FILE *f = fd >= 0 ? fdopen(fd, "re") : NULL;
        const struct passwd *p;

        (void) snprintf(buf, size, "uid %u", (unsigned) uid);
        if (!f)
                return;
        (void) TAKE_FD(fd); /* the stream's now */
        while ((p = fgetpwent(f)))
                if (p->pw_uid == uid) {
                        (void) snprintf(buf, size, "%.24s", p->pw_name);
                        return;
                }
}

/* Behind sudo everybody is root: the login user says who it was. The pid may be another's by now: for
 * people. */
static void who(const struct agent *a, const struct http_caller *caller, char *buf, size_t size) {
        const struct ucred *peer = &caller->peer;
        char path[64], user[32], login[32];
        uint64_t uid;

        if (caller->remote) {
                (void) snprintf(buf, size, "%s", caller->name);
                return;
        }
        user_text(a, peer->uid, user, sizeof(user));
        (void) snprintf(path, sizeof(path), "/proc/%d/loginuid", (int) peer->pid);
        if (!a->host->real_root || host_read_u64(a->host, path, &uid) < 0 || uid >= UINT32_MAX ||
            (uid_t) uid == peer->uid) {
                (void) snprintf(buf, size, "%s", user);
                return;
        }
        user_text(a, (uid_t) uid, login, sizeof(login));
        (void) snprintf(buf, size, "%.24s (login %.24s)", user, login);
}

/* --- Calls --------------------------------------------------------------------------------------------- */

static const struct {
        const char *path;
        enum order_kind kind;
        bool needs_reason, needs_until;
} calls[] = {
        { "/v1/cordon", ORDER_CORDON, true, false },
        { "/v1/drain", ORDER_DRAIN, true, false },
        { "/v1/observe", ORDER_OBSERVE, false, false },
        { "/v1/silence", ORDER_SILENCE, true, true },
};

static int copy_text(const char *text, char *buf, size_t size) {
        return text && strlen(text) < size ? snprintf(buf, size, "%s", text) : -EINVAL;
}

static bool check_is_known(const struct agent *a, const struct order *o) {
        for (size_t i = 0; i < a->checks.n; i++)
                if (order_silences(o, a->checks.entries[i].latest->check,
                                   a->checks.entries[i].latest->subject))
                        return true;
        return false;
}

/* The check and subject of a silence. 0, or 400 or 404 with why. */
static unsigned read_about(const struct agent *a, const struct http_request *r, bool must_be_known,
                           struct order *o, char why[static 160]) {
        const char *subject;

        if (o->kind != ORDER_SILENCE)
                return 0;
        subject = route_text(r, "subject");
        if (copy_text(route_text(r, "check"), o->check, sizeof(o->check)) < 0 ||
            (subject && copy_text(subject, o->subject, sizeof(o->subject)) < 0)) {
                (void) snprintf(why, 160, "check= and subject= name no check");
                return 400;
        }
        if (must_be_known && !check_is_known(a, o)) {
                (void) snprintf(why, 160, "there is no check %s%s%s on this host", o->check,
                                o->subject[0] ? " " : "", o->subject);
                return 404;
        }
        return 0;
}

static unsigned read_order(const struct agent *a, const struct http_request *r, size_t which, struct order *o,
                           char why[static 160]) {
        const char *reason = route_text(r, "reason");
        int64_t until = route_number(r, "until", -1);
        usec_t now = host_now_real(a->host);

        o->until = (usec_t) MAX(until, INT64_C(0));
        if (reason ? order_check_reason(reason) < 0 : calls[which].needs_reason) {
                (void) snprintf(why, 160, "reason= must be one line of 1 to %d bytes", ORDER_REASON_MAX - 1);
                return 400;
        }
        if (until >= 0 ? o->until <= now || o->until - now > ORDER_SPAN_MAX : calls[which].needs_until) {
                (void) snprintf(why, 160, "until= must be a time from now to a year ahead");
                return 400;
        }
        (void) snprintf(o->reason, sizeof(o->reason), "%s", reason ? reason : "");
        (void) snprintf(o->boot_id, sizeof(o->boot_id), "%s", a->boot_id);
        o->since = now;
        o->since_boot = host_now(a->host);
        who(a, r->caller, o->by, sizeof(o->by));
        return read_about(a, r, true, o, why);
}

/* The answer waits for the disk. v is taken over. */
static int answer_when_durable(struct agent *a, const struct http_request *r, json_t *v,
                               struct http_reply *ret) {
        struct order_call *c;
        int k;

        if (!a->orders->writer)
                return agent_answer_json(ret, 200, v);
        c = calloc(1, sizeof(*c));
        if (!c || !v) {
                free(c);
                return agent_answer_json(ret, 200, v);
        }
        *c = (struct order_call){ .owner = a->orders, .answer = v };
        k = agent_orders_put(a, &c->number);
        if (k < 0) {
                json_decref(v);
                free(c);
                return agent_answer_error(ret, 500, "df -h " PATH_HOSTD_STATE,
                                          "in force, but it ends with the next restart of tpu-hostd: %s",
                                          strerror(-k));
        }
        http_hold(r, &c->call);
        c->next = a->orders->calls;
        a->orders->calls = c;
        return 1;
}

static int give_order(struct agent *a, const struct http_request *r, size_t which, struct http_reply *ret) {
        struct order o = { .kind = calls[which].kind };
        char why[160], what[64];
        unsigned status = read_order(a, r, which, &o, why);

        if (status > 0)
                return agent_refuse(a, r, ret, NULL, status, why, "see docs/api.md; tpuctl status names the checks");
        if (orders_set(&a->order_list, &o) < 0)
                return agent_refuse(a, r, ret, NULL, 409, "64 orders are in force already",
                              "end some: tpuctl status shows them");
        (void) snprintf(what, sizeof(what), "PUT %s", calls[which].path);
        agent_audit(a, what, r->caller, o.reason[0] ? o.reason : "done");
        agent_orders_tell(a, &o, true, o.by);
        agent_orders_changed(a);
        if (o.kind == ORDER_DRAIN) { /* the list that is here may lack a run of the last seconds */
                a->orders->drain_asked = launchd_runs_asked(a->runs);
                launchd_runs_ask(a->runs);
        }
        return answer_when_durable(a, r, order_to_public_json(&o), ret);
}

static int end_order(struct agent *a, const struct http_request *r, size_t which, struct http_reply *ret) {
        struct order about = { .kind = calls[which].kind }, over;
        char why[160], what[64], by[sizeof(over.by)];
        unsigned status = read_about(a, r, false, &about, why);

        if (status > 0)
                return agent_refuse(a, r, ret, NULL, status, why, "see docs/api.md");
        if (!orders_end(&a->order_list, about.kind, about.check, about.subject, &over))
                return agent_answer_error(ret, 404, "tpuctl status", "there is no such order in force");
        (void) snprintf(what, sizeof(what), "DELETE %s", calls[which].path);
        agent_audit(a, what, r->caller, "done");
        who(a, r->caller, by, sizeof(by));
        agent_orders_tell(a, &over, false, by);
        agent_orders_changed(a);
        return answer_when_durable(a, r, order_to_public_json(&over), ret);
}

int agent_orders_call(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        size_t which = 0;
        bool set = streq(r->method, "PUT");

        while (!streq(r->path, calls[which].path))
                which++;
        if (!agent_caller_may_order(r->caller))
                return agent_refuse(a, r, ret, NULL, 403, "only root may order this: it is about everybody's runs",
                              "sudo tpuctl …");
        return set ? give_order(a, r, which, ret) : end_order(a, r, which, ret);
}

/* --- JSON ---------------------------------------------------------------------------------------------- */

static json_t *order_or_null(const struct order *o) {
        return o ? order_to_public_json(o) : json_null();
}

/* Adds cordon, drain, mode and silences to the status. The reference is taken over; NULL: out of memory. */
json_t *agent_orders_status(struct agent *a, json_t *status) {
        const struct order *drain = orders_find(&a->order_list, ORDER_DRAIN);
        json_t *silences = json_array(), *d = order_or_null(drain), *more;
        int r = 0;

        if (drain)
                r = json_object_set_new(d, "drained",
                                        json_boolean(drain->drained && agent_orders_no_run_left(a)));
        for (size_t i = 0; r == 0 && i < a->order_list.n; i++)
                if (a->order_list.items[i].kind == ORDER_SILENCE)
                        r = json_array_append_new(silences, order_to_public_json(&a->order_list.items[i]));
        more = json_pack("{s:o, s:o, s:s, s:o, s:b, s:o}", "cordon",
                         order_or_null(orders_find(&a->order_list, ORDER_CORDON)), "drain", d, "mode",
                         agent_observes(a) ? "observe" : "repair", "observe",
                         order_or_null(orders_find(&a->order_list, ORDER_OBSERVE)), "observe_configured",
                         a->intent.observe, "silences", silences);
        if (r < 0 || !status || !more || json_object_update(status, more) < 0) {
                json_decref(status);
                status = NULL;
        }
        json_decref(more);
        return status;
}
