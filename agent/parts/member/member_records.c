/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes between this host and its registry: the member/ record and the figures that are reported, and
 * the records that come: the slice, orders, the fleet's mode.
 */
#include <assert.h>

#include "addresses.h"
#include "fingerprint.h"
#include "json_text.h"
#include "log.h"
#include "loop_timer.h"
#include "member_state.h"
#include "notice_part.h"
#include "orders_part.h"
#include "path_address.h"
#include "progress_part.h"
#include "utf8.h"

#define TOGETHER (20 * USEC_PER_MSEC)   /* news that come together are reported together */
#define STEPS_APART (60 * USEC_PER_SEC) /* a step that rose is no news: it goes with the next question */
#define PATIENCE (30 * USEC_PER_SEC)    /* for tpu-launchd's list of runs: then this host joins without */
#define OWN_ADDRESSES_MAX 8
#define NEXT_MAX 4

/* --- The member/ record -------------------------------------------------------------------------------- */

static json_t *configured_addresses(const char *list) {
        _cleanup_free_ char *copy = strdup(list);
        char *word, *rest = copy;
        json_t *out = json_array();

        while (copy && out && (word = strsep(&rest, ",")))
                (void) json_array_append_new(out, json_string(word)); /* checked when it was read */
        return out;
}

static void add_address(json_t *out, const struct address_table *all, int nic) {
        char text[ADDRESS_TEXT_MAX];
        union path_address a;

        if (json_array_size(out) < OWN_ADDRESSES_MAX &&
            (nic_address(all, nic, AF_INET, &a) == 0 || nic_address(all, nic, AF_INET6, &a) == 0))
                (void) json_array_append_new(out, json_string(address_text(&a, text))); /* else one less */
}

/* Of each data-centre NIC, in the kernel's order: the first is where a run's coordinator is reached. */
static json_t *own_addresses(struct bus *b) {
        _cleanup_links_ struct link_table links = LINK_TABLE_NULL;
        _cleanup_addresses_ struct address_table all = ADDRESS_TABLE_NULL;
        json_t *out = json_array();

        if (!out || !b->host->real_root || links_read(b->host, &links) < 0 ||
            addresses_read(b->host, &all) < 0)
                return out;
        for (size_t i = 0; i < links.n; i++)
                if (intent_is_data_nic(&b->intent, &links.links[i]))
                        add_address(out, &all, links.links[i].index);
        return out;
}

const char *member_machine(const struct bus *b) {
        return b->instance_id[0]  ? b->instance_id
               : b->machine_id[0] ? b->machine_id
                                  : b->name;
}

/*
 * The names or addresses of the workers after this one, round to the first, as its identity has them: so
 * that a host that never reported is missing by name. A few of them: each host names others. ret_hosts: how
 * many hosts the slice has, as far as this one knows; 0: it does not.
 */
static json_t *next_of(const struct bus *b, unsigned worker, json_int_t *ret_hosts) {
        const char *list = identity_get(&b->identity, identity_workers(&b->identity));
        _cleanup_free_ char *copy = list && *list ? strdup(list) : NULL;
        const char *words[IDENTITY_HOSTS_MAX];
        char *word, *rest = copy;
        json_t *out = json_array();
        size_t n = 0;

        while (copy && n < ELEMENTSOF(words) && (word = strsep(&rest, ",")))
                words[n++] = word;
        for (size_t i = 1; out && i < n && i <= NEXT_MAX; i++)
                (void) json_array_append_new(out, json_string(words[(worker + i) % n])); /* else a number */
        *ret_hosts = (json_int_t) n;
        return out;
}

static const char *orders_of(struct bus *b, char *buf, size_t size) {
        const struct order *cordon = orders_find(&b->orders, ORDER_CORDON),
                           *drain = orders_find(&b->orders, ORDER_DRAIN);

        buf[0] = 0;
        if (drain || cordon)
                (void) snprintf(buf, size, "%s: %s", drain ? "draining" : "cordoned",
                                drain ? drain->reason : cordon->reason);
        return buf;
}

/* What the probe found last. */
static json_t *make_fingerprint(const struct bus *b) {
        enum identity_field workers = identity_workers(&b->identity);
        struct fingerprint f = { .n = 0 };

        for (size_t i = 0; i < b->checks.n; i++) {
                struct finding latest;

                kept_finding_unpack(b->checks.entries[i].latest, &latest);
                fingerprint_take(&f, &latest);
        }
        fingerprint_take_workers(&f, identity_get(&b->identity, workers),
                                 identity_count(&b->identity, workers));
        return fingerprint_to_json(&f);
}

static json_t *make_member(struct member_state *m) {
        struct bus *b = m->bus;
        const char *accelerator = identity_get(&b->identity, IDENTITY_ACCELERATOR_TYPE),
                   *topology = identity_get(&b->identity, IDENTITY_TOPOLOGY);
        char reasons[400], orders[ORDER_REASON_MAX + 16];
        const char *configured = b->settings.registry.address;
        json_t *address = configured[0] ? configured_addresses(configured) : own_addresses(b);
        json_int_t hosts;
        json_t *next = next_of(b, m->who.worker, &hosts), *o;

        o = json_pack("{s:i, s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:s, s:s, s:o, s:s, s:s, s:s, "
                         "s:b, s:s, s:o, s:b, s:o, s:o}",
                         "v", 1, "slice", m->who.slice, "worker", (json_int_t) m->who.worker, "host",
                         m->who.host, "id", member_machine(b), "machine", b->machine_id, "incarnation",
                         m->incarnation, "version", TPU_HOSTD_VERSION,
                         "address", address, "hosts", hosts, "accelerator",
                         accelerator ? accelerator : "", "topology", topology ? topology : "", "fingerprint",
                         make_fingerprint(b), "state", host_state_name(b->state), "reasons",
                         check_table_reasons(&b->checks, reasons, sizeof(reasons)), "orders",
                         orders_of(b, orders, sizeof(orders)), "observe", bus_observes(b), "notice",
                         notice_ahead(b), "next", next, "runs_known",
                         m->runs.known, "runs", run_parts_to_member(m), "local", run_parts_local(m));
        return m->pairs ? json_member_add(o, "pairs", json_incref(m->pairs)) : o;
}

static void report_member(struct member_state *m) {
        usec_t now = host_now(m->bus->host);
        json_t *member;
        bool news;
        int r = 0;

        if (!m->registry || !m->bus->watching)
                return;
        if (!m->runs.known && now < m->started + PATIENCE)
                return; /* who says less than runs here would be taken for having lost it */
        member = make_member(m);
        news = !m->said || !json_equal(m->said, member);
        if (now >= m->said_at + STEPS_APART) {
                run_parts_freshen(m);
                m->said_at = now;
                json_decref(member);
                member = make_member(m);
        }
        r = member ? registry_say(m->registry, member, news) : -ENOMEM;
        if (r < 0)
                (void) log_warning_errno(r, "this host cannot be reported to the registry: %m");
        json_decref(m->said);
        m->said = member;
}

static int on_news(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source, (void) usec;
        report_member(userdata);
        return 0;
}

int member_start_news(struct member_state *m) {
        return loop_timer_new(m->bus->event, CLOCK_BOOTTIME, USEC_PER_MSEC, "registry-news", on_news, m,
                              &m->news);
}

void member_report_soon(struct member_state *m) {
        int on = SD_EVENT_OFF;

        if (!m->registry || sd_event_source_get_enabled(m->news, &on) < 0 || on != SD_EVENT_OFF)
                return;
        (void) loop_timer_in(m->news, TOGETHER); /* fails only when the loop ends */
}

static void keep_record(json_t **place, const json_t *value) {
        json_t *old = *place;

        *place = value ? json_incref((json_t *) (uintptr_t) value) : NULL;
        json_decref(old);
}

void member_forget(struct member_state *m) {
        keep_record(&m->slice_record, NULL);
        keep_record(&m->site_mode, NULL);
        keep_record(&m->order, NULL);
        json_decref(m->said);
        m->said = NULL;
        m->complete = m->conflict_reported = false;
        run_parts_forget(m);
}

/* --- What the registry says: the slice ----------------------------------------------------------------- */

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

static void report_slice(struct member_state *m, const json_t *before, const json_t *now) {
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
        (void) bus_emit(m->bus,
                        EVENT_AS(SLICE_CHANGED, ready ? SEVERITY_INFO : SEVERITY_WARN,
                                 .slice = m->who.slice, .generation = generation, .state = state,
                                 .present = (int64_t) json_array_size(json_object_get(now, "roster")),
                                 .hosts = hosts, .missing = missing),
                        NULL);
}

static void take_slice(struct member_state *m, const json_t *value) {
        if (value && m->who.kind != REGISTRY_STATIC)
                report_slice(m, m->slice_record, value);
        keep_record(&m->slice_record, value);
}

/* --- Orders -------------------------------------------------------------------------------------------- */

#define PRINCIPAL "registry"

/* An order that the registry has; a person's own on this host stands before it. */
static void set_order(struct member_state *m, enum order_kind kind, const json_t *value) {
        struct bus *b = m->bus;
        struct order *known = orders_find(&b->orders, kind), now = { .kind = kind };
        const json_t *until = json_object_get(value, "until");

        if (known && !startswith(known->by, PRINCIPAL))
                return;
        (void) snprintf(now.reason, sizeof(now.reason), "%s", json_text_of(value, "reason"));
        if (order_check_reason(now.reason) < 0)
                (void) snprintf(now.reason, sizeof(now.reason), "no reason given");
        (void) snprintf(now.by, sizeof(now.by), PRINCIPAL " (%.200s)", json_text_of(value, "by"));
        (void) utf8_scrub(now.by, strlen(now.by));
        now.until = (usec_t) MAX(json_integer_value(until), 0); /* no integer, too: none */
        if (now.until > 0 && now.until <= host_now_real(b->host))
                return; /* its end has come */
        if (known && streq(known->reason, now.reason) && streq(known->by, now.by) &&
            known->until == now.until)
                return;
        now.since = host_now_real(b->host);
        now.since_boot = host_now(b->host);
        (void) snprintf(now.boot_id, sizeof(now.boot_id), "%s", b->boot_id);
        if (orders_set(&b->orders, &now) < 0)
                return; /* 64 silences: people see to those */
        orders_report(b, &now, true, now.by);
        orders_changed(b);
}

static void end_order(struct member_state *m, enum order_kind kind) {
        struct bus *b = m->bus;
        struct order *known = orders_find(&b->orders, kind), over;

        if (!known || !startswith(known->by, PRINCIPAL) || !orders_end(&b->orders, kind, "", "", &over))
                return;
        orders_report(b, &over, false, PRINCIPAL);
        orders_changed(b);
}

static void apply_order(struct member_state *m, enum order_kind kind, const json_t *value) {
        if (value && !json_is_null(value))
                set_order(m, kind, value);
        else
                end_order(m, kind);
}

void member_apply_orders(struct member_state *m) {
        bool site = streq(json_text_of(m->site_mode, "mode"), "observe");

        if (!m->complete) /* what was ordered before stands until the registry has said all */
                return;
        apply_order(m, ORDER_CORDON, json_object_get(m->order, "cordon"));
        apply_order(m, ORDER_DRAIN, json_object_get(m->order, "drain"));
        apply_order(m, ORDER_OBSERVE, site ? m->site_mode : json_object_get(m->order, "mode"));
}

/* --- Records ------------------------------------------------------------------------------------------- */

static bool is_of(const char *key, const char *kind, const char *name) {
        size_t n = strlen(kind);

        return strncmp(key, kind, n) == 0 && streq(key + n, name);
}

void member_record(const char *key, const json_t *value, void *userdata) {
        struct member_state *m = userdata;
        const struct bus_news news = { .topic = BUS_RECORD,
                                       .record = { .key = key, .value = value, .fresh = m->complete } };

        if (is_of(key, "slice/", m->who.slice))
                take_slice(m, value);
        else if (streq(key, "site/mode"))
                keep_record(&m->site_mode, value);
        else if (is_of(key, "order/", m->who.host))
                keep_record(&m->order, value);
        else if (startswith(key, "run/"))
                run_parts_record(m, key + strlen("run/"), value);
        else if (!is_of(key, "capture/", m->who.slice) && !is_of(key, "pairs/", m->who.slice))
                return;
        bus_publish(m->bus, &news);
        member_apply_orders(m);
}

void member_complete(void *userdata) {
        struct member_state *m = userdata;

        m->complete = true;
        member_apply_orders(m);
        run_parts_act(m);
}
