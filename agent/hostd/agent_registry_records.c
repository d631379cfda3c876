/* SPDX-License-Identifier: Apache-2.0 */
/* What the registry tells this host: its slice, orders, the fleet's mode; and how the API shows it. */
#include "agent_parts.h"
#include "calls.h"
#include "json_text.h"
#include "orders_part.h"
#include "utf8.h"

static void keep(json_t **place, const json_t *value) {
        json_t *old = *place;

        *place = value ? json_incref((json_t *) (uintptr_t) value) : NULL;
        json_decref(old);
}

void agent_registry_forget(struct agent_registry *g) {
        keep(&g->slice_record, NULL);
        keep(&g->site_mode, NULL);
        keep(&g->order, NULL);
        json_decref(g->said);
        g->said = NULL;
        g->complete = g->conflict_told = false;
        if (g->parts)
                agent_parts_forget(g->parts);
}

/* --- The slice ----------------------------------------------------------------------------------------- */

/* "h2 (10.0.0.3): its lease ended, h5: never seen, …" */
static void missing_text(const json_t *slice, char *buf, size_t size) {
        const json_t *list = json_object_get(slice, "missing"), *m;
        size_t i, n = 0;

        buf[0] = 0;
        json_array_foreach(list, i, m) {
                const char *host = json_text_of(m, "host"),
                           *address = json_string_value(json_array_get(json_object_get(m, "address"), 0));
                char worker[32];

                if (json_object_size(m) == 0) /* of a large slice that forms only some have names */
                        break;

                (void) snprintf(worker, sizeof(worker), "worker %lld",
                                (long long) json_integer_value(json_object_get(m, "worker")));
                n += (size_t) snprintf(buf + n, size - n, "%s%.63s%s%.48s%s: %.80s", n > 0 ? ", " : "",
                                       host[0] ? host : worker, address ? " (" : "", address ? address : "",
                                       address ? ")" : "", json_text_of(m, "why"));
                if (n + 220 > size)
                        break;
        }
        if (i + 1 < json_array_size(list))
                (void) snprintf(buf + n, size - n, ", …");
}

static void tell_slice(struct agent_registry *g, const json_t *before, const json_t *now) {
        const char *state = json_text_of(now, "state");
        bool ready = streq(state, "ready");
        char missing[700];
        json_int_t generation = json_integer_value(json_object_get(now, "generation")),
                   hosts = json_integer_value(json_object_get(now, "hosts"));

        missing_text(now, missing, sizeof(missing));
        if (before && streq(json_text_of(before, "state"), state) &&
            json_integer_value(json_object_get(before, "generation")) == generation &&
            json_equal(json_object_get(before, "missing"), json_object_get(now, "missing")))
                return;
        (void) bus_emit(g->bus,
                          EVENT_AS(SLICE_CHANGED, ready ? SEVERITY_INFO : SEVERITY_WARN, .slice = g->slice,
                                   .generation = generation, .state = state,
                                   .present = (int64_t) json_array_size(json_object_get(now, "roster")),
                                   .hosts = hosts, .missing = missing),
                          NULL);
}

static void take_slice(struct agent_registry *g, const json_t *value) {
        if (value && g->kind != REGISTRY_STATIC)
                tell_slice(g, g->slice_record, value);
        keep(&g->slice_record, value);
}

/* --- Orders -------------------------------------------------------------------------------------------- */

#define PRINCIPAL "registry"

/* An order that the registry has; a person's own on this host stands before it. */
static void order_is(struct agent_registry *g, enum order_kind kind, const json_t *value) {
        struct bus *b = g->bus;
        struct order *known = orders_find(&b->orders, kind), now = { .kind = kind };
        const json_t *until = json_object_get(value, "until");

        if (known && !startswith(known->by, PRINCIPAL))
                return;
        (void) snprintf(now.reason, sizeof(now.reason), "%s", json_text_of(value, "reason"));
        if (order_check_reason(now.reason) < 0)
                (void) snprintf(now.reason, sizeof(now.reason), "no reason given");
        (void) snprintf(now.by, sizeof(now.by), PRINCIPAL " (%.200s)", json_text_of(value, "by"));
        (void) utf8_scrub(now.by, strlen(now.by));
        now.until = json_is_integer(until) && json_integer_value(until) > 0 ? (usec_t) json_integer_value(until) : 0;
        if (now.until > 0 && now.until <= host_now_real(b->host))
                return; /* its end has come */
        if (known && streq(known->reason, now.reason) && streq(known->by, now.by) && known->until == now.until)
                return;
        now.since = host_now_real(b->host);
        now.since_boot = host_now(b->host);
        (void) snprintf(now.boot_id, sizeof(now.boot_id), "%s", b->boot_id);
        if (orders_set(&b->orders, &now) < 0)
                return; /* 64 silences: people see to those */
        orders_report(b, &now, true, now.by);
        orders_changed(b);
}

static void order_is_over(struct agent_registry *g, enum order_kind kind) {
        struct bus *b = g->bus;
        struct order *known = orders_find(&b->orders, kind), over;

        if (!known || !startswith(known->by, PRINCIPAL) || !orders_end(&b->orders, kind, "", "", &over))
                return;
        orders_report(b, &over, false, PRINCIPAL);
        orders_changed(b);
}

static void apply(struct agent_registry *g, enum order_kind kind, const json_t *value) {
        if (value && !json_is_null(value))
                order_is(g, kind, value);
        else
                order_is_over(g, kind);
}

void agent_registry_apply_orders(struct agent_registry *g) {
        bool site = streq(json_text_of(g->site_mode, "mode"), "observe");

        if (!g->complete) /* what was ordered before stands until the registry has said all */
                return;
        apply(g, ORDER_CORDON, json_object_get(g->order, "cordon"));
        apply(g, ORDER_DRAIN, json_object_get(g->order, "drain"));
        apply(g, ORDER_OBSERVE, site ? g->site_mode : json_object_get(g->order, "mode"));
}

/* --- Records ------------------------------------------------------------------------------------------- */

static bool is_of(const char *key, const char *kind, const char *name) {
        size_t n = strlen(kind);

        return strncmp(key, kind, n) == 0 && streq(key + n, name);
}

void agent_registry_record(const char *key, const json_t *value, void *userdata) {
        struct agent_registry *g = userdata;

        if (is_of(key, "slice/", g->slice))
                take_slice(g, value);
        else if (streq(key, "site/mode"))
                keep(&g->site_mode, value);
        else if (is_of(key, "order/", g->host))
                keep(&g->order, value);
        else if (is_of(key, "capture/", g->slice))
                bus_publish(g->bus,
                            &(struct bus_news){ .topic = BUS_RECORD,
                                                .record = { .key = key, .value = value, .fresh = g->complete } });
        else if (startswith(key, "run/"))
                agent_parts_record(g->parts, key + strlen("run/"), value);
        else
                return;
        agent_registry_apply_orders(g);
}

void agent_registry_complete(void *userdata) {
        struct agent_registry *g = userdata;

        g->complete = true;
        agent_registry_apply_orders(g);
        agent_parts_look(g->parts);
}

void agent_registry_runs(struct bus *b) {
        agent_parts_listed(agent_of(b)->enrollment->parts);
}

/* --- JSON ---------------------------------------------------------------------------------------------- */

static json_t *registry_json(const struct agent_registry *g) {
        const struct bus *b = g->bus;
        usec_t now = host_now(b->host), real = host_now_real(b->host);
        bool any = g->registry != NULL;

        return json_pack("{s:s, s:s, s:s, s:s, s:o, s:b}", "kind", registry_kind_name(g->kind), "endpoint", g->endpoint,
                         "state", any ? registry_state_name(g->status.state) : "none", "why",
                         any ? g->status.why : g->why_not, "since",
                         any ? answer_instant(real - MIN(real, now - MIN(now, g->status.since))) : json_null(),
                         "may_claim", any && g->status.may_claim);
}

json_t *agent_registry_to_status(struct bus *b, json_t *status) {
        const struct agent_registry *g = agent_of(b)->enrollment;
        json_t *slice = g && g->slice_record ? json_incref(g->slice_record) : json_null();

        if (status && json_object_set_new(status, "slice", slice) == 0 &&
            json_object_set_new(status, "registry", g ? registry_json(g) : json_null()) == 0 &&
            json_object_set_new(status, "runs", g ? agent_parts_to_json(g->parts) : json_array()) == 0)
                return status;
        json_decref(status);
        return NULL;
}
