/* SPDX-License-Identifier: Apache-2.0 */
/* What people order (orders.h): what follows from it, and the file in which it and the health of checks
 * outlive the agent. */
#include <fcntl.h>

#include "agent_orders.h"
#include "calls.h"
#include "health_file.h"
#include "log.h"
#include "paths.h"

/* --- The file ------------------------------------------------------------------------------------------ */

static struct order_time time_of(const struct bus *b) {
        return (struct order_time){ .boot = host_now(b->host),
                                    .real = host_now_real(b->host),
                                    .boot_id = b->boot_id };
}

int agent_orders_put(struct bus *b, uint64_t *ret_number) {
        char *text =
                health_file_format(&b->orders, &b->checks, b->state, b->boot_id, host_now_real(b->host));

        return text ? file_writer_put(agent_of(b)->orders->writer, text, ret_number) : -ENOMEM;
}

void agent_orders_save(struct bus *b) {
        int r = agent_of(b)->orders && agent_of(b)->orders->writer ? agent_orders_put(b, NULL) : 0;

        if (r < 0)
                (void) log_warning_errno(r, "the health of checks is not kept in %s: %m", agent_of(b)->orders->path);
}

static void answer(struct order_call *c, int result) {
        struct http_reply answer;

        if (result < 0)
                (void) answer_error(&answer, 500,
                                          "df -h " PATH_HOSTD_STATE "; journalctl -u tpu-hostd",
                                          "in force, but it ends with the next restart of tpu-hostd: %s: %s",
                                          c->owner->path, strerror(-result));
        else
                (void) answer_json(&answer, 200, json_incref(c->answer));
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
static void tell_lost(struct bus *b, int error, const char *why) {
        char aside[STATE_FILE_ASIDE_MAX];

        (void) bus_emit(b,
                          EVENT_OF(HEALTH_LOST, .file = agent_of(b)->orders->path, .reason = why,
                                   .kept_as = state_file_set_aside(AT_FDCWD, agent_of(b)->orders->path, error, aside)),
                          NULL);
}

static void believe(struct bus *b, struct health_memory *m) {
        /* not the places behind them: nobody has touched those of the agent yet, so that they take no memory */
        memcpy(b->orders.items, m->orders.items, m->orders.n * sizeof(m->orders.items[0]));
        b->orders.n = m->orders.n;
        if (m->bad > 0)
                log_warning("%s: %u orders cannot be understood and are passed over", agent_of(b)->orders->path,
                            m->bad);
        if (!m->same_boot)
                return;
        b->state = m->state;
        check_table_remember(&b->checks, json_incref(m->checks));
}

static void load(struct bus *b) {
        _cleanup_free_ struct health_memory *m = calloc(1, sizeof(*m)); /* forty kilobytes: not on the stack */
        char why[STATE_FILE_WHY_MAX] = "out of memory";
        _cleanup_free_ char *text = NULL;
        size_t len = 0;
        int r = m ? state_file_read(AT_FDCWD, agent_of(b)->orders->path, &health_file, &text, &len, why) : -ENOMEM;

        if (r == -ENOENT)
                return;
        if (r == 0)
                r = health_file_parse(text, len, b->boot_id, m, why);
        if (r < 0) {
                tell_lost(b, r, why);
                return;
        }
        believe(b, m);
        health_memory_clear(m);
}

/* --- What follows from orders -------------------------------------------------------------------------- */

/* In any case: it may remember an order that has ended, or not know that one still stands. */
static void tell_netcfg(struct bus *b, bool in_any_case) {
        const struct order *order = orders_find(&b->orders, ORDER_OBSERVE);
        struct agent_orders *o = agent_of(b)->orders;
        usec_t until = order ? order->until : 0;
        bool same = o->told_observe == (order != NULL) && o->told_until == until;

        o->told_observe = order != NULL;
        o->told_until = until;
        if (o->observe && (in_any_case || !same))
                observe_handover_offer(o->observe, order != NULL, until);
}

void agent_orders_changed(struct bus *b) {
        tell_netcfg(b, false);
        bus_mark_silenced(b);
        b->status_stale = b->orders_changed = true;
        bus_report_state(b);
        agent_orders_save(b);
}

/* --- Events -------------------------------------------------------------------------------------------- */

static void tell(struct bus *b, enum event_id id, const struct order *o, const char *by) {
        char until[CLOCK_TEXT_MAX];

        (void) bus_emit(b,
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

void agent_orders_tell(struct bus *b, const struct order *o, bool begins, const char *by) {
        tell(b, begins ? begin_event(o->kind) : end_event(o->kind), o, by);
}

bool agent_orders_no_run_left(const struct bus *b) {
        const struct host_runs *l = b->runs;

        /* A full list may have been cut. */
        if (!l->known || l->question <= agent_of(b)->orders->drain_asked || l->n == HOST_RUNS_MAX)
                return false;
        for (size_t i = 0; i < l->n; i++)
                if (host_run_lives(&l->runs[i]))
                        return false;
        return true;
}

/* Drained is news once an order; runs that are not known are no proof that there is none. */
static void agent_orders_look_for_drained(struct bus *b) {
        struct order *o = orders_find(&b->orders, ORDER_DRAIN);

        if (!o || o->drained || !agent_orders_no_run_left(b))
                return;
        o->drained = true;
        tell(b, EVENT_HOST_DRAINED, o, o->by);
        agent_orders_changed(b);
}

void agent_orders_tick(struct bus *b) {
        const struct order_time now = time_of(b);
        struct order over;
        bool any = false;

        while (orders_expire(&b->orders, &now, &over)) {
                agent_orders_tell(b, &over, false, "its end");
                any = true;
        }
        if (any)
                agent_orders_changed(b);
        agent_orders_look_for_drained(b);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

static int start_file(struct bus *b, const char *path) {
        int r;

        (void) snprintf(agent_of(b)->orders->path, sizeof(agent_of(b)->orders->path), "%s", path);
        r = file_writer_new(b->event, path, &health_file, on_written, agent_of(b)->orders, &agent_of(b)->orders->writer);
        if (r >= 0)
                load(b);
        return r;
}

const char *agent_orders_file(const struct bus *b) {
        if (b->settings.state_file[0])
                return b->settings.state_file;
        return b->host->real_root ? PATH_HEALTH_STATE : NULL;
}

int agent_orders_start(struct bus *b) {
        const char *path = agent_orders_file(b);
        const char *socket = b->settings.netcfg_socket[0] ? b->settings.netcfg_socket
                             : b->host->real_root         ? PATH_NETCFG_SOCKET
                                                          : NULL;
        int r;

        agent_of(b)->orders = calloc(1, sizeof(*agent_of(b)->orders));
        if (!agent_of(b)->orders)
                return -ENOMEM;
        agent_of(b)->orders->bus = b;
        r = socket ? observe_handover_new(b->event, socket, &agent_of(b)->orders->observe) : 0;
        if (r < 0)
                return r;
        if (path)
                r = start_file(b, path);
        if (r < 0)
                return r;
        tell_netcfg(b, true);
        return 0;
}

void agent_orders_stop(struct bus *b) {
        struct order_call *c;

        if (!agent_of(b)->orders)
                return;
        agent_of(b)->orders->observe = observe_handover_free(agent_of(b)->orders->observe);
        agent_of(b)->orders->writer = file_writer_free(agent_of(b)->orders->writer);
        while ((c = agent_of(b)->orders->calls)) {
                agent_of(b)->orders->calls = c->next;
                json_decref(c->answer);
                free(c);
        }
        b->orders = (struct orders){ 0 };
        free(agent_of(b)->orders);
        agent_of(b)->orders = NULL;
}
