/* SPDX-License-Identifier: Apache-2.0 */
/* What people order (orders.h): what follows from it, and the file in which it and the health of checks
 * outlive the agent. */
#include <fcntl.h>

#include "agent_orders.h"
#include "health_file.h"
#include "log.h"
#include "paths.h"

/* --- The file ------------------------------------------------------------------------------------------ */

static struct order_time time_of(const struct agent *a) {
        return (struct order_time){ .boot = host_now(a->host),
                                    .real = host_now_real(a->host),
                                    .boot_id = a->boot_id };
}

int agent_orders_put(struct agent *a, uint64_t *ret_number) {
        char *text =
                health_file_format(&a->order_list, &a->checks, a->state, a->boot_id, host_now_real(a->host));

        return text ? file_writer_put(a->orders->writer, text, ret_number) : -ENOMEM;
}

void agent_orders_save(struct agent *a) {
        int r = a->orders && a->orders->writer ? agent_orders_put(a, NULL) : 0;

        if (r < 0)
                (void) log_warning_errno(r, "the health of checks is not kept in %s: %m", a->orders->path);
}

static void answer(struct order_call *c, int result) {
        struct http_reply answer;

        if (result < 0)
                (void) agent_answer_error(&answer, 500,
                                          "df -h " PATH_HOSTD_STATE "; journalctl -u tpu-hostd",
                                          "in force, but it ends with the next restart of tpu-hostd: %s: %s",
                                          c->owner->path, strerror(-result));
        else
                (void) agent_answer_json(&answer, 200, json_incref(c->answer));
        http_answer(c->call, &answer);
        json_decref(c->answer);
        free(c);
}

static void on_written(uint64_t number, int result, void *userdata) {
        struct agent_orders *o = userdata;
        struct order_call **at = &o->calls, *c;

        if (result < 0 && !o->failed)
                (void) log_error_errno(result, "orders and the health of checks are not kept in %s: %m",
                                       o->path);
        o->failed = result < 0;
        while ((c = *at)) {
                if (c->number > number) {
                        at = &c->next;
                        continue;
                }
                *at = c->next;
                answer(c, result);
        }
}

/* What cannot be used is set aside for a person to look at, and an event says that orders may be lost. */
static void tell_lost(struct agent *a, int error, const char *why) {
        char aside[STATE_FILE_ASIDE_MAX];

        (void) agent_emit(a,
                          EVENT_OF(HEALTH_LOST, .file = a->orders->path, .reason = why,
                                   .kept_as = state_file_set_aside(AT_FDCWD, a->orders->path, error, aside)),
                          NULL);
}

static void believe(struct agent *a, struct health_memory *m) {
        /* not the places behind them: nobody has touched those of the agent yet, so that they take no memory */
        memcpy(a->order_list.items, m->orders.items, m->orders.n * sizeof(m->orders.items[0]));
        a->order_list.n = m->orders.n;
        if (m->bad > 0)
                log_warning("%s: %u orders cannot be understood and are passed over", a->orders->path,
                            m->bad);
        if (!m->same_boot)
                return;
        a->state = m->state;
        check_table_remember(&a->checks, json_incref(m->checks));
}

static void load(struct agent *a) {
        _cleanup_free_ struct health_memory *m = calloc(1, sizeof(*m)); /* forty kilobytes: not on the stack */
        char why[STATE_FILE_WHY_MAX] = "out of memory";
        _cleanup_free_ char *text = NULL;
        size_t len = 0;
        int r = m ? state_file_read(AT_FDCWD, a->orders->path, &health_file, &text, &len, why) : -ENOMEM;

        if (r == -ENOENT)
                return;
        if (r == 0)
                r = health_file_parse(text, len, a->boot_id, m, why);
        if (r < 0) {
                tell_lost(a, r, why);
                return;
        }
        believe(a, m);
        health_memory_clear(m);
}

/* --- What follows from orders -------------------------------------------------------------------------- */

bool agent_observes(const struct agent *a) {
        return a->intent.observe || orders_find((struct orders *) (uintptr_t) &a->order_list, ORDER_OBSERVE);
}

void agent_orders_mark(struct agent *a) {
        for (size_t i = 0; i < a->checks.n; i++) {
                const struct kept_finding *f = a->checks.entries[i].latest;

                a->checks.health[i].silenced =
                        orders_silence_of(&a->order_list, f->check, f->subject) != NULL;
        }
}

/* In any case: it may remember an order that has ended, or not know that one still stands. */
static void tell_netcfg(struct agent *a, bool in_any_case) {
        const struct order *order = orders_find(&a->order_list, ORDER_OBSERVE);
        struct agent_orders *o = a->orders;
        usec_t until = order ? order->until : 0;
        bool same = o->told_observe == (order != NULL) && o->told_until == until;

        o->told_observe = order != NULL;
        o->told_until = until;
        if (o->observe && (in_any_case || !same))
                observe_handover_offer(o->observe, order != NULL, until);
}

void agent_orders_changed(struct agent *a) {
        tell_netcfg(a, false);
        agent_orders_mark(a);
        a->status_stale = a->orders_news = true;
        agent_tell_state(a);
        agent_orders_save(a);
}

const char *agent_orders_text(struct agent *a, char *buf, size_t size) {
        static const enum order_kind kinds[] = { ORDER_CORDON, ORDER_DRAIN, ORDER_OBSERVE };
        size_t used = 0;

        buf[0] = 0;
        for (size_t i = 0; i < ELEMENTSOF(kinds) && used + 1 < size; i++) {
                const struct order *o = orders_find(&a->order_list, kinds[i]);
                char one[384];
                int n;

                if (!o)
                        continue;
                n = snprintf(buf + used, size - used, "%s%s", used > 0 ? "; " : "",
                             order_text(o, one, sizeof(one)));
                used += (size_t) MAX(n, 0);
        }
        return buf;
}

/* --- Events -------------------------------------------------------------------------------------------- */

static void tell(struct agent *a, enum event_id id, const struct order *o, const char *by) {
        char until[CLOCK_TEXT_MAX];

        (void) agent_emit(a,
                          EVENT_LIKE(HOST_CORDONED, id, event_def(id)->severity,
                                     .order = order_kind_name(o->kind),
                                     .reason = o->reason[0] ? o->reason : "no reason given", .by = by,
                                     .until = order_until_text(o, until), .check = o->check,
                                     .subject = o->subject, .ordered_by = o->by),
                          NULL);
}

static enum event_id begin_event(enum order_kind k) {
        switch (k) {
        case ORDER_CORDON:
                return EVENT_HOST_CORDONED;
        case ORDER_DRAIN:
                return EVENT_HOST_DRAINING;
        case ORDER_OBSERVE:
                return EVENT_MODE_OBSERVE;
        case ORDER_SILENCE:
        case _ORDER_KIND_MAX:
                break;
        }
        return EVENT_CHECK_SILENCED;
}

static enum event_id end_event(enum order_kind k) {
        switch (k) {
        case ORDER_CORDON:
        case ORDER_DRAIN:
                return EVENT_HOST_UNCORDONED;
        case ORDER_OBSERVE:
                return EVENT_MODE_REPAIR;
        case ORDER_SILENCE:
        case _ORDER_KIND_MAX:
                break;
        }
        return EVENT_CHECK_UNSILENCED;
}

void agent_orders_tell(struct agent *a, const struct order *o, bool begins, const char *by) {
        tell(a, begins ? begin_event(o->kind) : end_event(o->kind), o, by);
}

bool agent_orders_no_run_left(const struct agent *a) {
        const struct launchd_run_list *l = launchd_runs_get(a->runs);

        /* A full list may have been cut. */
        if (!l->known || l->question <= a->orders->drain_asked || l->n == LAUNCHD_RUNS_MAX)
                return false;
        for (size_t i = 0; i < l->n; i++)
                if (!streq(l->runs[i].state, "exited"))
                        return false;
        return true;
}

/* Drained is news once an order; runs that are not known are no proof that there is none. */
static void agent_orders_look_for_drained(struct agent *a) {
        struct order *o = orders_find(&a->order_list, ORDER_DRAIN);

        if (!o || o->drained || !agent_orders_no_run_left(a))
                return;
        o->drained = true;
        tell(a, EVENT_HOST_DRAINED, o, o->by);
        agent_orders_changed(a);
}

void agent_orders_tick(struct agent *a) {
        const struct order_time now = time_of(a);
        struct order over;
        bool any = false;

        while (orders_expire(&a->order_list, &now, &over)) {
                agent_orders_tell(a, &over, false, "its end");
                any = true;
        }
        if (any)
                agent_orders_changed(a);
        agent_orders_look_for_drained(a);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

static int start_file(struct agent *a, const char *path) {
        int r;

        (void) snprintf(a->orders->path, sizeof(a->orders->path), "%s", path);
        r = file_writer_new(a->event, path, &health_file, on_written, a->orders, &a->orders->writer);
        if (r >= 0)
                load(a);
        return r;
}

const char *agent_orders_file(const struct agent *a) {
        if (a->settings.state_file[0])
                return a->settings.state_file;
        return a->host->real_root ? PATH_HEALTH_STATE : NULL;
}

int agent_orders_start(struct agent *a) {
        const char *path = agent_orders_file(a);
        const char *socket = a->settings.netcfg_socket[0] ? a->settings.netcfg_socket
                             : a->host->real_root         ? PATH_NETCFG_SOCKET
                                                          : NULL;
        int r;

        a->orders = calloc(1, sizeof(*a->orders));
        if (!a->orders)
                return -ENOMEM;
        a->orders->agent = a;
        r = socket ? observe_handover_new(a->event, socket, &a->orders->observe) : 0;
        if (r < 0)
                return r;
        if (path)
                r = start_file(a, path);
        if (r < 0)
                return r;
        tell_netcfg(a, true);
        return 0;
}

void agent_orders_stop(struct agent *a) {
        struct order_call *c;

        if (!a->orders)
                return;
        a->orders->observe = observe_handover_free(a->orders->observe);
        a->orders->writer = file_writer_free(a->orders->writer);
        while ((c = a->orders->calls)) {
                a->orders->calls = c->next;
                json_decref(c->answer);
                free(c);
        }
        a->order_list = (struct orders){ 0 };
        free(a->orders);
        a->orders = NULL;
}
