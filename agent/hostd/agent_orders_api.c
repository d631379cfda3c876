/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PUT and DELETE of /v1/cordon, /v1/drain, /v1/observe and /v1/silence. An order is answered once it is on
 * the disk. Only root may order: an order is about everybody's runs, a member of tpu-run acts on its own
 * only.
 */
#include <fcntl.h>
#include <pwd.h>

#include "agent_orders.h"
#include "calls.h"
#include "paths.h"
#include "http_routes.h"

/* --- Who ----------------------------------------------------------------------------------------------- */

/* From /etc/passwd alone: a name service may block. */
static void user_text(const struct bus *b, uid_t uid, char *buf, size_t size) {
        _cleanup_close_ int fd = host_open_file(b->host, "/etc/passwd", O_RDONLY);
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
static void who(const struct bus *b, const struct http_caller *caller, char *buf, size_t size) {
        const struct ucred *peer = &caller->peer;
        char path[64], user[32], login[32];
        uint64_t uid;

        if (caller->remote) {
                (void) snprintf(buf, size, "%s", caller->name);
                return;
        }
        user_text(b, peer->uid, user, sizeof(user));
        (void) snprintf(path, sizeof(path), "/proc/%d/loginuid", (int) peer->pid);
        if (!b->host->real_root || host_read_u64(b->host, path, &uid) < 0 || uid >= UINT32_MAX ||
            (uid_t) uid == peer->uid) {
                (void) snprintf(buf, size, "%s", user);
                return;
        }
        user_text(b, (uid_t) uid, login, sizeof(login));
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

static bool check_is_known(const struct bus *b, const struct order *o) {
        for (size_t i = 0; i < b->checks.n; i++)
                if (order_silences(o, b->checks.entries[i].latest->check,
                                   b->checks.entries[i].latest->subject))
                        return true;
        return false;
}

/* The check and subject of a silence. 0, or 400 or 404 with why. */
static unsigned read_about(const struct bus *b, const struct http_request *r, bool must_be_known,
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
        if (must_be_known && !check_is_known(b, o)) {
                (void) snprintf(why, 160, "there is no check %s%s%s on this host", o->check,
                                o->subject[0] ? " " : "", o->subject);
                return 404;
        }
        return 0;
}

static unsigned read_order(const struct bus *b, const struct http_request *r, size_t which, struct order *o,
                           char why[static 160]) {
        const char *reason = route_text(r, "reason");
        int64_t until = route_number(r, "until", -1);
        usec_t now = host_now_real(b->host);

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
        (void) snprintf(o->boot_id, sizeof(o->boot_id), "%s", b->boot_id);
        o->since = now;
        o->since_boot = host_now(b->host);
        who(b, r->caller, o->by, sizeof(o->by));
        return read_about(b, r, true, o, why);
}

/* The answer waits for the disk. v is taken over. */
static int answer_when_durable(struct bus *b, const struct http_request *r, json_t *v,
                               struct http_reply *ret) {
        struct order_call *c;
        int k;

        if (!agent_of(b)->orders->writer)
                return answer_json(ret, 200, v);
        c = calloc(1, sizeof(*c));
        if (!c || !v) {
                free(c);
                return answer_json(ret, 200, v);
        }
        *c = (struct order_call){ .owner = agent_of(b)->orders, .answer = v };
        k = agent_orders_put(b, &c->number);
        if (k < 0) {
                json_decref(v);
                free(c);
                return answer_error(ret, 500, "df -h " PATH_HOSTD_STATE,
                                          "in force, but it ends with the next restart of tpu-hostd: %s",
                                          strerror(-k));
        }
        http_hold(r, &c->call);
        c->next = agent_of(b)->orders->calls;
        agent_of(b)->orders->calls = c;
        return 1;
}

static int give_order(struct bus *b, const struct http_request *r, size_t which, struct http_reply *ret) {
        struct order o = { .kind = calls[which].kind };
        char why[160], what[64];
        unsigned status = read_order(b, r, which, &o, why);

        if (status > 0)
                return call_refuse(b, r, ret, NULL, status, why, "see docs/api.md; tpuctl status names the checks");
        if (orders_set(&b->orders, &o) < 0)
                return call_refuse(b, r, ret, NULL, 409, "64 orders are in force already",
                              "end some: tpuctl status shows them");
        (void) snprintf(what, sizeof(what), "PUT %s", calls[which].path);
        call_audit(b, what, r->caller, o.reason[0] ? o.reason : "done");
        agent_orders_tell(b, &o, true, o.by);
        agent_orders_changed(b);
        if (o.kind == ORDER_DRAIN) { /* the list that is here may lack a run of the last seconds */
                agent_of(b)->orders->drain_asked = launchd_runs_asked(agent_of(b)->runs);
                launchd_runs_ask(agent_of(b)->runs);
        }
        return answer_when_durable(b, r, order_to_public_json(&o), ret);
}

static int end_order(struct bus *b, const struct http_request *r, size_t which, struct http_reply *ret) {
        struct order about = { .kind = calls[which].kind }, over;
        char why[160], what[64], by[sizeof(over.by)];
        unsigned status = read_about(b, r, false, &about, why);

        if (status > 0)
                return call_refuse(b, r, ret, NULL, status, why, "see docs/api.md");
        if (!orders_end(&b->orders, about.kind, about.check, about.subject, &over))
                return answer_error(ret, 404, "tpuctl status", "there is no such order in force");
        (void) snprintf(what, sizeof(what), "DELETE %s", calls[which].path);
        call_audit(b, what, r->caller, "done");
        who(b, r->caller, by, sizeof(by));
        agent_orders_tell(b, &over, false, by);
        agent_orders_changed(b);
        return answer_when_durable(b, r, order_to_public_json(&over), ret);
}

int agent_orders_call(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        size_t which = 0;
        bool set = streq(r->method, "PUT");

        while (!streq(r->path, calls[which].path))
                which++;
        if (!caller_may_order(r->caller))
                return call_refuse(b, r, ret, NULL, 403, "only root may order this: it is about everybody's runs",
                              "sudo tpuctl …");
        return set ? give_order(b, r, which, ret) : end_order(b, r, which, ret);
}

/* --- JSON ---------------------------------------------------------------------------------------------- */

static json_t *order_or_null(const struct order *o) {
        return o ? order_to_public_json(o) : json_null();
}

/* Adds cordon, drain, mode and silences to the status. The reference is taken over; NULL: out of memory. */
json_t *agent_orders_status(struct bus *b, json_t *status) {
        const struct order *drain = orders_find(&b->orders, ORDER_DRAIN);
        json_t *silences = json_array(), *d = order_or_null(drain), *more;
        int r = 0;

        if (drain)
                r = json_object_set_new(d, "drained",
                                        json_boolean(drain->drained && agent_orders_no_run_left(b)));
        for (size_t i = 0; r == 0 && i < b->orders.n; i++)
                if (b->orders.items[i].kind == ORDER_SILENCE)
                        r = json_array_append_new(silences, order_to_public_json(&b->orders.items[i]));
        more = json_pack("{s:o, s:o, s:s, s:o, s:b, s:o}", "cordon",
                         order_or_null(orders_find(&b->orders, ORDER_CORDON)), "drain", d, "mode",
                         bus_observes(b) ? "observe" : "repair", "observe",
                         order_or_null(orders_find(&b->orders, ORDER_OBSERVE)), "observe_configured",
                         b->intent.observe, "silences", silences);
        if (r < 0 || !status || !more || json_object_update(status, more) < 0) {
                json_decref(status);
                status = NULL;
        }
        json_decref(more);
        return status;
}
