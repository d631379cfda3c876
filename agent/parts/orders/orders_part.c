/* SPDX-License-Identifier: Apache-2.0 */
#include "orders_part.h"

#include <assert.h>
#include <fcntl.h>

#include "calls.h"
#include "file_writer.h"
#include "health_file.h"
#include "log.h"
#include "netcfg_call.h"
#include "paths.h"

#define NOT_KEPT "in force, but it ends with the next restart of tpu-hostd: "
#define WHY_MAX  160

/* A call that waits for the disk. */
struct order_call {
        struct http_call *call;
        uint64_t number; /* of the text that must be written */
        json_t *answer;
        struct order_call *next;
};

struct orders_state {
        struct bus *bus;
        struct file_writer *writer; /* NULL: nothing is kept */
        struct observe_handover *observe; /* NULL: there is no tpu-netcfg */
        struct order_call *calls;
        bool write_failed; /* the last one: logged once */
        uint64_t drain_asked; /* bus->runs_asked of the drain: lists up to that question may lack a run */
        bool handed_observe; /* what tpu-netcfg was sent last, */
        usec_t handed_until; /* and until when */
};

static struct orders_state *state_of(const struct bus *b) {
        return bus_part(b, &orders_part);
}

/* --- The file ------------------------------------------------------------------------------------------ */

const char *orders_file(const struct bus *b) {
        return bus_own(b, b->settings.state_file, PATH_HEALTH_STATE);
}

static int write_file(struct orders_state *p, uint64_t *ret_number) {
        const struct bus *b = p->bus;
        usec_t now = host_now_real(b->host);
        char *text = health_file_format(&b->orders, &b->checks, b->state, b->boot_id, now);

        return text ? file_writer_put(p->writer, text, ret_number) : -ENOMEM;
}

static void save_health(struct orders_state *p) {
        int r = p->writer ? write_file(p, NULL) : 0;

        if (r < 0)
                (void) log_warning_errno(r, "the health of checks is not kept in %s: %m",
                                         orders_file(p->bus));
}

static void answer_order(const struct orders_state *p, struct order_call *c, int result) {
        struct http_reply answer;

        if (result < 0)
                (void) answer_error(&answer, 500, "df -h " PATH_HOSTD_STATE "; journalctl -u tpu-hostd",
                                    NOT_KEPT "%s: %s", orders_file(p->bus), strerror(-result));
        else
                (void) answer_json(&answer, 200, json_incref(c->answer));
        http_answer(c->call, &answer);
        json_decref(c->answer);
        free(c);
}

static void on_written(uint64_t number, int result, void *userdata) {
        struct orders_state *p = userdata;
        struct order_call **at = &p->calls, *c;

        if (result < 0 && !p->write_failed)
                (void) log_error_errno(result, "orders and the health of checks are not kept in %s: %m",
                                       orders_file(p->bus));
        p->write_failed = result < 0;
        while ((c = *at)) {
                if (c->number > number) {
                        at = &c->next;
                        continue;
                }
                *at = c->next;
                answer_order(p, c, result);
        }
}

static void use_memory(struct bus *b, const struct health_memory *m) {
        /* The places behind them are untouched pages of the bus, which take no memory. */
        memcpy(b->orders.items, m->orders.items, m->orders.n * sizeof(m->orders.items[0]));
        b->orders.n = m->orders.n;
        if (m->bad > 0)
                log_warning("%s: %u orders cannot be understood and are passed over", orders_file(b),
                            m->bad);
        if (!m->same_boot)
                return;
        b->state = m->state;
        check_table_remember(&b->checks, json_incref(m->checks));
}

/* What cannot be used is set aside for a person to look at, and an event says that orders may be lost. */
static void load_file(struct bus *b, const char *path) {
        _cleanup_free_ struct health_memory *m = calloc(1, sizeof(*m)); /* 40 KB: not on the stack */
        char why[STATE_FILE_WHY_MAX] = "out of memory", aside[STATE_FILE_ASIDE_MAX];
        _cleanup_free_ char *text = NULL;
        size_t len = 0;
        int r = m ? state_file_read(AT_FDCWD, path, &health_file, &text, &len, why) : -ENOMEM;

        if (r == -ENOENT)
                return;
        if (r == 0)
                r = health_file_parse(text, len, b->boot_id, m, why);
        if (r == 0) {
                use_memory(b, m);
                health_memory_clear(m);
        } else
                (void) bus_emit(b,
                                EVENT_OF(HEALTH_LOST, .file = path, .reason = why,
                                         .kept_as = state_file_set_aside(AT_FDCWD, path, r, aside)),
                                NULL);
}

/* --- What follows from orders -------------------------------------------------------------------------- */

/* always: tpu-netcfg may remember an order that has ended, or not know one that is in force. */
static void hand_over_observe(struct orders_state *p, bool always) {
        const struct order *order = orders_find(&p->bus->orders, ORDER_OBSERVE);
        usec_t until = order ? order->until : 0;
        bool same = p->handed_observe == (order != NULL) && p->handed_until == until;

        p->handed_observe = order != NULL;
        p->handed_until = until;
        if (p->observe && (always || !same))
                observe_handover_offer(p->observe, order != NULL, until);
}

void orders_changed(struct bus *b) {
        hand_over_observe(state_of(b), false);
        bus_mark_silenced(b);
        b->status_stale = b->orders_changed = true;
        bus_report_state(b);
        save_health(state_of(b));
}

static void emit_order(struct bus *b, enum event_id id, const struct order *o, const char *by) {
        char until[CLOCK_TEXT_MAX];

        (void) bus_emit(b,
                        EVENT_LIKE(HOST_CORDONED, id, event_def(id)->severity,
                                   .order = order_kind_name(o->kind),
                                   .reason = o->reason[0] ? o->reason : "no reason given", .by = by,
                                   .until = order_until_text(o, until), .check = o->check,
                                   .subject = o->subject, .ordered_by = o->by),
                        NULL);
}

void orders_report(struct bus *b, const struct order *o, bool begins, const char *by) {
        static const struct {
                enum event_id begins, ends;
        } events[_ORDER_KIND_MAX] = {
                [ORDER_CORDON] = { EVENT_HOST_CORDONED, EVENT_HOST_UNCORDONED },
                [ORDER_DRAIN] = { EVENT_HOST_DRAINING, EVENT_HOST_UNCORDONED },
                [ORDER_OBSERVE] = { EVENT_MODE_OBSERVE, EVENT_MODE_REPAIR },
                [ORDER_SILENCE] = { EVENT_CHECK_SILENCED, EVENT_CHECK_UNSILENCED },
        };

        assert(o->kind < _ORDER_KIND_MAX);
        emit_order(b, begins ? events[o->kind].begins : events[o->kind].ends, o, by);
}

/* Whether tpu-launchd said, asked after the drain was ordered, that no run is left. */
static bool no_run_is_left(const struct orders_state *p) {
        const struct host_runs *l = p->bus->runs;

        /* A full list may have been cut. */
        return l->known && l->question > p->drain_asked && l->n < HOST_RUNS_MAX && host_runs_living(l) == 0;
}

/* Drained is news once an order; runs that are not known are no proof that there is none. */
static void report_drained(struct orders_state *p) {
        struct order *o = orders_find(&p->bus->orders, ORDER_DRAIN);

        if (!o || o->drained || !no_run_is_left(p))
                return;
        o->drained = true;
        emit_order(p->bus, EVENT_HOST_DRAINED, o, o->by);
        orders_changed(p->bus);
}

/* --- Who orders ---------------------------------------------------------------------------------------- */

static void user_text(const struct bus *b, uid_t uid, char *buf, size_t size) {
        if (!host_user_name(b->host, uid, buf, size))
                (void) snprintf(buf, size, "uid %u", (unsigned) uid);
}

/* Behind sudo everybody is root: the login user says who it was. The pid may be another process by now. */
static void author_text(const struct bus *b, const struct http_caller *caller, char *buf, size_t size) {
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

struct order_call_kind {
        const char *path;
        enum order_kind kind;
        bool needs_reason, needs_until;
};
static const struct order_call_kind call_kinds[] = {
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
static unsigned read_subject(const struct bus *b, const struct http_request *r, bool must_be_known,
                             struct order *o, char why[static WHY_MAX]) {
        const char *subject;

        if (o->kind != ORDER_SILENCE)
                return 0;
        subject = route_text(r, "subject");
        if (copy_text(route_text(r, "check"), o->check, sizeof(o->check)) < 0 ||
            (subject && copy_text(subject, o->subject, sizeof(o->subject)) < 0)) {
                (void) snprintf(why, WHY_MAX, "check= and subject= name no check");
                return 400;
        }
        if (must_be_known && !check_is_known(b, o)) {
                (void) snprintf(why, WHY_MAX, "there is no check %s%s%s on this host", o->check,
                                o->subject[0] ? " " : "", o->subject);
                return 404;
        }
        return 0;
}

static unsigned read_order(const struct bus *b, const struct http_request *r,
                           const struct order_call_kind *k, struct order *o, char why[static WHY_MAX]) {
        const char *reason = route_text(r, "reason");
        int64_t until = route_number(r, "until", -1);
        usec_t now = host_now_real(b->host);

        o->until = (usec_t) MAX(until, INT64_C(0));
        if (reason ? order_check_reason(reason) < 0 : k->needs_reason) {
                (void) snprintf(why, WHY_MAX, "reason= must be one line of 1 to %d bytes",
                                ORDER_REASON_MAX - 1);
                return 400;
        }
        if (until >= 0 ? o->until <= now || o->until - now > ORDER_SPAN_MAX : k->needs_until) {
                (void) snprintf(why, WHY_MAX, "until= must be a time from now to a year ahead");
                return 400;
        }
        (void) snprintf(o->reason, sizeof(o->reason), "%s", reason ? reason : "");
        (void) snprintf(o->boot_id, sizeof(o->boot_id), "%s", b->boot_id);
        o->since = now;
        o->since_boot = host_now(b->host);
        author_text(b, r->caller, o->by, sizeof(o->by));
        return read_subject(b, r, true, o, why);
}

/* The answer waits for the disk. v is taken over. */
static int answer_when_durable(struct orders_state *p, const struct http_request *r, json_t *v,
                               struct http_reply *ret) {
        struct order_call *c = p->writer && v ? calloc(1, sizeof(*c)) : NULL;
        int k;

        if (!c)
                return answer_json(ret, 200, v);
        c->answer = v;
        k = write_file(p, &c->number);
        if (k < 0) {
                json_decref(v);
                free(c);
                return answer_error(ret, 500, "df -h " PATH_HOSTD_STATE, NOT_KEPT "%s", strerror(-k));
        }
        http_hold(r, &c->call);
        c->next = p->calls;
        p->calls = c;
        return 1;
}

static int give_order(struct orders_state *p, const struct http_request *r, const struct order_call_kind *k,
                      struct http_reply *ret) {
        struct order o = { .kind = k->kind };
        struct bus *b = p->bus;
        char why[WHY_MAX], what[64];
        unsigned status = read_order(b, r, k, &o, why);

        if (status > 0)
                return call_refuse(b, r, ret, NULL, status, why,
                                   "tpuctl status names the checks; see /usr/share/doc/tpu-hostd/api.md");
        if (orders_set(&b->orders, &o) < 0)
                return call_refuse(b, r, ret, NULL, 409, "64 orders are in force already",
                                   "end some: tpuctl status shows them");
        (void) snprintf(what, sizeof(what), "PUT %s", k->path);
        call_audit(b, what, r->caller, o.reason[0] ? o.reason : "done");
        orders_report(b, &o, true, o.by);
        orders_changed(b);
        if (o.kind == ORDER_DRAIN) { /* the list that is here may lack a run of the last seconds */
                p->drain_asked = b->runs_asked;
                bus_tell(b, BUS_ASK_RUNS);
        }
        return answer_when_durable(p, r, order_to_public_json(&o), ret);
}

static int end_order(struct orders_state *p, const struct http_request *r, const struct order_call_kind *k,
                     struct http_reply *ret) {
        struct order about = { .kind = k->kind }, over;
        struct bus *b = p->bus;
        char why[WHY_MAX], what[64], by[sizeof(over.by)];
        unsigned status = read_subject(b, r, false, &about, why);

        if (status > 0)
                return call_refuse(b, r, ret, NULL, status, why, "see /usr/share/doc/tpu-hostd/api.md");
        if (!orders_end(&b->orders, about.kind, about.check, about.subject, &over))
                return answer_error(ret, 404, "tpuctl status", "there is no such order in force");
        (void) snprintf(what, sizeof(what), "DELETE %s", k->path);
        call_audit(b, what, r->caller, "done");
        author_text(b, r->caller, by, sizeof(by));
        orders_report(b, &over, false, by);
        orders_changed(b);
        return answer_when_durable(p, r, order_to_public_json(&over), ret);
}

static int call_order(void *self, const struct http_request *r, struct http_reply *ret) {
        struct orders_state *p = self;
        size_t i = 0;

        while (!streq(r->path, call_kinds[i].path)) {
                i++;
                assert(i < ELEMENTSOF(call_kinds)); /* each path of the routes below is there */
        }
        if (!caller_may_order(r->caller))
                return call_refuse(p->bus, r, ret, NULL, 403,
                                   "only root may order this: it is about everybody's runs",
                                   "sudo tpuctl …");
        return streq(r->method, "PUT") ? give_order(p, r, &call_kinds[i], ret)
                                       : end_order(p, r, &call_kinds[i], ret);
}

#define ORDER_TAKES TAKES_TEXT("reason", 0), TAKES_TIME("until")
#define SILENCE_TAKES TAKES_TEXT("check", 0), TAKES_TEXT("subject", 0)

static const struct argument order_arguments[] = { ORDER_TAKES, TAKES_END },
                             silence_arguments[] = { SILENCE_TAKES, ORDER_TAKES, TAKES_END };

static const struct part_route routes[] = {
        { ROUTE_WITH("PUT", "/v1/cordon", order_arguments), .call = call_order },
        { ROUTE("DELETE", "/v1/cordon"), .call = call_order },
        { ROUTE_WITH("PUT", "/v1/drain", order_arguments), .call = call_order },
        { ROUTE("DELETE", "/v1/drain"), .call = call_order },
        { ROUTE_WITH("PUT", "/v1/observe", order_arguments), .call = call_order },
        { ROUTE("DELETE", "/v1/observe"), .call = call_order },
        { ROUTE_WITH("PUT", "/v1/silence", silence_arguments), .call = call_order },
        { ROUTE_WITH("DELETE", "/v1/silence", ARGUMENTS(SILENCE_TAKES)), .call = call_order },
        PART_ROUTES_END,
};

/* --- The part ------------------------------------------------------------------------------------------ */

static int start_orders(void *self) {
        struct orders_state *p = self;
        struct bus *b = p->bus;
        const char *netcfg = bus_own(b, b->settings.netcfg_socket, PATH_NETCFG_SOCKET);
        const char *path = orders_file(b);
        int r = netcfg ? observe_handover_new(b->event, netcfg, &p->observe) : 0;

        if (r >= 0 && path) {
                r = file_writer_new(b->event, path, &health_file, on_written, p, &p->writer);
                if (r >= 0)
                        load_file(b, path);
        }
        if (r < 0)
                return r;
        hand_over_observe(p, true);
        return 0;
}

/* What has come to its end. */
static void tick_orders(void *self) {
        struct orders_state *p = self;
        struct bus *b = p->bus;
        const struct order_time now = { .boot = host_now(b->host),
                                        .real = host_now_real(b->host),
                                        .boot_id = b->boot_id };
        struct order over;
        bool any = false;

        while (orders_expire(&b->orders, &now, &over)) {
                orders_report(b, &over, false, "its end");
                any = true;
        }
        if (any)
                orders_changed(b);
        report_drained(p);
}

static void hear_orders(void *self, const struct bus_news *n) {
        if (n->topic == BUS_CHECKS)
                save_health(self);
}

static json_t *order_or_null(const struct order *o) {
        return o ? order_to_public_json(o) : json_null();
}

static int status_orders(void *self, json_t *status) {
        const struct orders_state *p = self;
        struct bus *b = p->bus;
        const struct order *drain = orders_find(&b->orders, ORDER_DRAIN);
        json_t *silences = json_array(), *d = order_or_null(drain), *more;
        int r = 0;

        if (drain)
                r = json_object_set_new(d, "drained", json_boolean(drain->drained && no_run_is_left(p)));
        for (size_t i = 0; r == 0 && i < b->orders.n; i++)
                if (b->orders.items[i].kind == ORDER_SILENCE)
                        r = json_array_append_new(silences, order_to_public_json(&b->orders.items[i]));
        more = json_pack("{s:o, s:o, s:s, s:o, s:b, s:o}", "cordon",
                         order_or_null(orders_find(&b->orders, ORDER_CORDON)), "drain", d, "mode",
                         bus_observes(b) ? "observe" : "repair", "observe",
                         order_or_null(orders_find(&b->orders, ORDER_OBSERVE)), "observe_configured",
                         b->intent.observe, "silences", silences);
        if (r == 0)
                r = more ? json_object_update(status, more) : -1;
        json_decref(more);
        return r < 0 ? -ENOMEM : 0;
}

static void stop_orders(void *self) {
        struct orders_state *p = self;
        struct order_call *c;

        p->observe = observe_handover_free(p->observe);
        p->writer = file_writer_free(p->writer);
        while ((c = p->calls)) {
                p->calls = c->next;
                json_decref(c->answer);
                free(c);
        }
}

const struct part orders_part = {
        .name = "orders",
        .size = sizeof(struct orders_state),
        .routes = routes,
        .start = start_orders,
        .tick = tick_orders,
        .hear = hear_orders,
        .status = status_orders,
        .stop = stop_orders,
};
