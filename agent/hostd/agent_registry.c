/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host as the registry knows it: which registry there is, what it is told of this host, and the checks of
 * both. A registry that is away changes nothing here.
 */
#include <sys/random.h>

#include "addresses.h"
#include "agent_parts.h"
#include "clock.h"
#include "fingerprint.h"
#include "log.h"
#include "notice_part.h"
#include "path_address.h"
#include "progress_part.h"
#include "uplink_part.h"

#define TOGETHER (20 * USEC_PER_MSEC) /* news that come together are told together */
#define STEPS_APART (60 * USEC_PER_SEC) /* a step that rose is no news of its own */
#define PATIENCE                                                                                            \
        (30 *                                                                                               \
         USEC_PER_SEC) /* so long tpu-launchd may not say what runs here: then this host joins and says so */
#define OWN_ADDRESSES_MAX 8
#define NEXT_MAX 4

/* --- What is said -------------------------------------------------------------------------------------- */

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
                (void) json_array_append_new(out,
                                             json_string(
                                                     address_text(&a, text))); /* then one less is known */
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

const char *agent_registry_id(const struct bus *b) {
        return b->machine_id[0] ? b->machine_id : b->name;
}

/* How many hosts the slice has, as far as this one knows; 0: it does not. */
static json_int_t hosts_of(const struct bus *b) {
        const char *list = identity_get(&b->identity, identity_workers(&b->identity));
        json_int_t n = list && *list ? 1 : 0;

        for (; list && *list; list++)
                n += *list == ',';
        return n;
}

/*
 * The names or addresses of the workers after this one, round to the first, as its identity has them: so that who was never
 * heard is missing by name. A few of them: each host says others.
 */
static json_t *next_of(const struct bus *b, unsigned worker) {
        const char *list = identity_get(&b->identity, identity_workers(&b->identity));
        _cleanup_free_ char *copy = strdup(list ? list : "");
        const char *words[IDENTITY_HOSTS_MAX];
        char *word, *rest = copy;
        json_t *out = json_array();
        size_t n = 0;

        while (copy && out && list && n < ELEMENTSOF(words) && (word = strsep(&rest, ",")))
                words[n++] = word;
        for (size_t i = 1; i < n && i <= NEXT_MAX; i++)
                (void) json_array_append_new(out,
                                             json_string(
                                                     words[(worker + i) % n])); /* or it stays a number */
        return out;
}

static const char *ordered(struct bus *b, char *buf, size_t size) {
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
        struct fingerprint f = { .n = 0 };

        for (size_t i = 0; i < b->checks.n; i++) {
                struct finding latest;

                kept_finding_unpack(b->checks.entries[i].latest, &latest);
                fingerprint_take(&f, &latest);
        }
        return fingerprint_to_json(&f);
}

static json_t *make_member(struct agent_registry *g) {
        struct bus *b = g->bus;
        const char *accelerator = identity_get(&b->identity, IDENTITY_ACCELERATOR_TYPE),
                   *topology = identity_get(&b->identity, IDENTITY_TOPOLOGY);
        char reasons[400], orders[ORDER_REASON_MAX + 16];
        json_t *address = g->address[0] ? configured_addresses(g->address) : own_addresses(b);

        return json_pack("{s:i, s:s, s:I, s:s, s:s, s:s, s:s, s:o, s:I, s:s, s:s, s:o, s:s, s:s, s:s, s:b, "
                         "s:s, s:o, s:b, s:o}",
                         "v", 1, "slice", g->slice, "worker", (json_int_t) g->worker, "host", g->host, "id",
                         agent_registry_id(b), "incarnation", g->incarnation, "version", TPU_HOSTD_VERSION,
                         "address", address, "hosts", hosts_of(b), "accelerator",
                         accelerator ? accelerator : "", "topology", topology ? topology : "", "fingerprint",
                         make_fingerprint(b), "state", host_state_name(b->state), "reasons",
                         check_table_reasons(&b->checks, reasons, sizeof(reasons)), "orders",
                         ordered(b, orders, sizeof(orders)), "observe", bus_observes(b), "notice",
                         notice_ahead(b), "next", next_of(b, g->worker), "runs_known",
                         agent_parts_known(g->parts), "runs", agent_parts_to_member(g->parts));
}

static void say(struct agent_registry *g) {
        usec_t now = host_now(g->bus->host);
        json_t *member;
        int r = 0;

        if (!g->registry || !g->bus->watching)
                return;
        if (!agent_parts_known(g->parts) && now < g->started + PATIENCE)
                return; /* who says less than runs here would be taken for having lost it */
        if (now >= g->said_at + STEPS_APART) {
                agent_parts_freshen(g->parts);
                g->said_at = now;
        }
        member = make_member(g);
        if (!member)
                r = -ENOMEM;
        else if (!g->said || !json_equal(g->said, member))
                r = registry_say(g->registry, member);
        if (r < 0)
                (void) log_warning_errno(r, "the registry is not told of this host: %m");
        json_decref(g->said);
        g->said = member;
}

/* What one sample says of the run that it is of; others are passed over. */
static void add_figure(json_t *figure, const struct sample *m) {
        const char *kind = m->values[1] ? m->values[1] : "", *some = m->values[2] ? m->values[2] : "";

        /* Out of memory: a member is left out, as one that is not known. */
        if (streq(m->name, "tpu.run.step.number"))
                (void) json_object_set_new(figure, "step", json_integer(m->i));
        else if (streq(m->name, "tpu.run.cpu.time") && (streq(kind, "user") || streq(kind, "system")))
                (void) json_object_set_new(figure, kind, json_real(m->is_int ? (double) m->i : m->d));
        else if (streq(m->name, "tpu.run.pressure.stall_time") && streq(kind, "cpu") && streq(some, "some"))
                (void) json_object_set_new(figure, "waited", json_real(m->is_int ? (double) m->i : m->d));
}

/* How far a run is, out of what this tick's samples said of it. */
static json_t *figure_of(struct bus *b, const struct host_run *run) {
        json_t *figure = json_pack("{s:s, s:I, s:I}", "run", run->name, "generation", (json_int_t) run->generation, "at",
                                   (json_int_t) host_now_real(b->host));
        usec_t step_time = progress_step_time(b, run->name);

        if (figure && step_time > 0)
                (void) json_object_set_new(figure, "step_time", json_integer((json_int_t) step_time));
        for (size_t i = 0; figure && i < b->samples.n; i++) {
                const struct sample_slot *s = &b->samples.slots[i];

                if (startswith(s->sample.name, "tpu.run.") && s->sample.values[0] &&
                    streq(s->sample.values[0], run->name))
                        add_figure(figure, &s->sample);
        }
        return figure;
}

static void hand_figures(struct agent_registry *g) {
        const struct host_runs *runs = g->bus->runs;
        json_t *list = g->kind == REGISTRY_COLLECTOR ? json_array() : NULL;

        for (size_t i = 0; list && runs->known && i < runs->n; i++)
                if (host_run_lives(&runs->runs[i]))
                        (void) json_array_append_new(list, figure_of(g->bus, &runs->runs[i])); /* as add_figure() */
        if (list && registry_figures(g->registry, list) < 0)
                log_warning("the registry is not told how far the runs of this host are");
        json_decref(list);
}

static int on_news(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source, (void) usec;
        say(userdata);
        return 0;
}

void agent_registry_news(struct bus *b) {
        struct agent_registry *g = agent_of(b)->enrollment;
        int on = SD_EVENT_OFF;

        if (!g || !g->registry || sd_event_source_get_enabled(g->news, &on) < 0 || on != SD_EVENT_OFF)
                return;
        /* Both fail for a source without a loop only. */
        (void) sd_event_source_set_time_relative(g->news, TOGETHER);
        (void) sd_event_source_set_enabled(g->news, SD_EVENT_ONESHOT);
}

/* --- Its state ------------------------------------------------------------------------------------------- */

static void tell_conflict(struct agent_registry *g) {
        (void) bus_emit(g->bus,
                          EVENT_OF(SLICE_CONFLICT, .slice = g->slice, .worker = g->worker,
                                   .machine = agent_registry_id(g->bus), .reason = g->status.why),
                          NULL);
}

/* Of several collectors the one that led last is asked first by the next life of this program, too. */
static void remember_leader(struct agent_registry *g) {
        if (g->kind != REGISTRY_COLLECTOR || g->status.state != REGISTRY_MEMBER ||
            !strpbrk(g->endpoint, ", \t") || streq(g->leader, g->status.why))
                return;
        (void) snprintf(g->leader, sizeof(g->leader), "%s", g->status.why);
        parts_keep(g->parts);
}

static void on_status(const struct registry_status *s, void *userdata) {
        struct agent_registry *g = userdata;
        bool other = g->status.state != s->state;

        g->status = *s;
        remember_leader(g);
        bus_publish(g->bus, &(struct bus_news){ .topic = BUS_REGISTRY });
        if (!other)
                return;
        if (s->state == REGISTRY_CONFLICT && !g->conflict_told)
                tell_conflict(g);
        g->conflict_told = s->state == REGISTRY_CONFLICT || (g->conflict_told && s->state == REGISTRY_AWAY);
        if (s->state == REGISTRY_MEMBER)
                log_info("registry: member, worker %u of slice %s (%s)", g->worker, g->slice, s->why);
        else
                log_notice("registry: %s: %s", registry_state_name(s->state), s->why);
        agent_registry_judge(g);
        if (s->state == REGISTRY_MEMBER)
                agent_parts_look(g->parts);
}

static void on_notice(const char *text, void *userdata) {
        (void) userdata;
        log_notice("registry: %s", text);
}

static const struct registry_events registry_events = { .record = agent_registry_record,
                                                        .status = on_status,
                                                        .complete = agent_registry_complete,
                                                        .notice = on_notice };

/* --- Which registry ------------------------------------------------------------------------------------ */

/* A name of docs/registry.md. */
static bool name_is_valid(const char *name) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        size_t len = strlen(name);

        return len >= 1 && len <= 63 && strchr(letters, name[0]) &&
               strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len;
}

/* kind and endpoint, by the settings. */
static void choose(const struct bus *b, struct agent_registry *n) {
        const struct settings_registry *s = &b->settings.registry;
        n->by_itself = streq(s->kind, "auto");
        n->kind = REGISTRY_STATIC;
        (void) snprintf(n->endpoint, sizeof(n->endpoint), "%s", s->endpoint);
        if (!n->by_itself)
                (void) registry_kind_parse(s->kind, &n->kind); /* checked when it was read */
        else if (s->endpoint[0]) {
                n->kind = REGISTRY_COLLECTOR;
                n->by_itself = false;
        } else if (!b->host->real_root) /* another machine's files: nothing of it goes out unasked */
                n->kind = REGISTRY_NONE;
        else if (b->settings.endpoint[0])
                n->kind = REGISTRY_COLLECTOR;
        if (n->kind == REGISTRY_COLLECTOR && !n->endpoint[0])
                (void) snprintf(n->endpoint, sizeof(n->endpoint), "%s", b->settings.endpoint);
        if (n->kind == REGISTRY_STATIC)
                n->endpoint[0] = 0;
}

/* Who this host is; why_not where that is not known. */
static void choose_names(const struct bus *b, struct agent_registry *n) {
        const char *slice = identity_get(&b->identity, IDENTITY_SLICE_NAME);
        uint32_t worker;

        if (n->kind == REGISTRY_NONE)
                return;
        if (n->kind == REGISTRY_COLLECTOR && !n->endpoint[0])
                (void) snprintf(n->why_not, sizeof(n->why_not),
                                "Kind=%s needs Endpoint=", registry_kind_name(n->kind));
        else if (!slice || identity_get_u32(&b->identity, IDENTITY_WORKER_ID, &worker) < 0)
                (void) snprintf(n->why_not, sizeof(n->why_not),
                                "%s of this host is not known: it is a member of nothing",
                                slice ? "the worker id" : "the slice's name");
        else if (!name_is_valid(slice) || !name_is_valid(b->name))
                (void) snprintf(n->why_not, sizeof(n->why_not), "'%.64s' is no name that a registry takes",
                                name_is_valid(slice) ? b->name : slice);
        else {
                n->worker = worker;
                (void) snprintf(n->slice, sizeof(n->slice), "%s", slice);
                (void) snprintf(n->host, sizeof(n->host), "%.63s", b->name);
        }
}

static bool same(const struct agent_registry *a, const struct agent_registry *b) {
        return a->kind == b->kind && a->by_itself == b->by_itself && streq(a->endpoint, b->endpoint) &&
               streq(a->host, b->host) && streq(a->slice, b->slice) && a->worker == b->worker &&
               streq(a->why_not, b->why_not);
}

static void open_registry(struct agent_registry *g) {
        struct tls_files *t = &g->tls;
        const struct registry_options o = {
                .kind = g->kind,
                .endpoints = g->endpoint,
                .first = g->leader,
                .tenant = g->bus->settings.registry.tenant,
                .ca = t->path[TLS_CA][0] ? t->path[TLS_CA] : NULL,
                .certificate = t->path[TLS_CERT][0] ? t->path[TLS_CERT] : NULL,
                .key = t->path[TLS_KEY][0] ? t->path[TLS_KEY] : NULL,
                .splay = g->bus->settings.registry.splay,
                .host = g->host,
                .slice = g->slice,
                .worker = g->worker,
        };
        char why[256] = "";
        int r;

        g->status = (struct registry_status){ .since = host_now(g->bus->host) };
        r = registry_new(g->bus->event, &o, &registry_events, g, &g->registry, why);
        if (r < 0) {
                (void) snprintf(g->why_not, sizeof(g->why_not), "%.150s", why[0] ? why : strerror(-r));
                log_warning("no registry: %s", g->why_not);
        }
}

void agent_registry_look(struct bus *b) {
        struct agent_registry *g = agent_of(b)->enrollment, n = { 0 };

        if (!g)
                return;
        choose(b, &n);
        choose_names(b, &n);
        (void) snprintf(g->address, sizeof(g->address), "%s", b->settings.registry.address);
        if (!same(g, &n)) {
                g->registry = registry_free(g->registry);
                bus_publish(b, &(struct bus_news){ .topic = BUS_REGISTRY, .registry = { .other = true } });
                agent_registry_forget(g);
                g->kind = n.kind;
                g->by_itself = n.by_itself;
                g->worker = n.worker;
                memcpy(g->endpoint, n.endpoint, sizeof(g->endpoint));
                memcpy(g->host, n.host, sizeof(g->host));
                memcpy(g->slice, n.slice, sizeof(g->slice));
                memcpy(g->why_not, n.why_not, sizeof(g->why_not));
                if (g->slice[0])
                        open_registry(g);
        }
        bus_tell(b, BUS_MEMBER);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

void agent_registry_suspicion(struct bus *b) {
        if (!agent_of(b)->enrollment)
                return;
        agent_parts_freshen(agent_of(b)->enrollment->parts);
        bus_tell(b, BUS_MEMBER);
}

void agent_registry_tick(struct bus *b) {
        struct agent_registry *g = agent_of(b)->enrollment;

        if (!g || (!g->registry && !g->why_not[0]))
                return;
        if (g->registry && tls_files_configured(&g->tls) && tls_files_look(&g->tls))
                registry_renew(g->registry);
        if (g->registry)
                hand_figures(g);
        agent_registry_judge(g);
        bus_publish(b, &(struct bus_news){ .topic = BUS_REGISTRY });
        agent_registry_apply_orders(g); /* one of this host's own may have stood before it */
        bus_tell(b, BUS_MEMBER);
}

static int tls_path(const char *key, const char *own, const char *of_uplink, char ret[static TLS_PATH_MAX]) {
        return tls_credential_path(key, own[0] ? own : of_uplink, ret);
}

static int choose_tls(struct agent_registry *g) {
        const struct settings *s = &g->bus->settings;

        if (tls_path("CaFile", s->registry.ca_file, s->uplink.ca_file, g->tls.path[TLS_CA]) < 0 ||
            tls_path("CertFile", s->registry.cert_file, s->uplink.cert_file, g->tls.path[TLS_CERT]) < 0 ||
            tls_path("KeyFile", s->registry.key_file, s->uplink.key_file, g->tls.path[TLS_KEY]) < 0)
                return -ENAMETOOLONG;
        (void) tls_files_look(&g->tls);
        return 0;
}

int agent_registry_start(struct bus *b) {
        struct agent_registry *g = calloc(1, sizeof(*g));
        uint64_t life = 0;
        int r;

        if (!g)
                return -ENOMEM;
        agent_of(b)->enrollment = g;
        g->bus = b;
        g->kind = _REGISTRY_KIND_MAX; /* none was chosen yet */
        (void) getrandom(&life, sizeof(life), GRND_NONBLOCK); /* without entropy yet: the start time does */
        (void) snprintf(g->incarnation, sizeof(g->incarnation), "%016" PRIx64, life ^ b->started_real);
        r = sd_event_add_time(b->event, &g->news, CLOCK_BOOTTIME, 0, USEC_PER_MSEC, on_news, g);
        if (r >= 0)
                r = sd_event_source_set_enabled(g->news, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(g->news, "registry-news");
        r = choose_tls(g);
        if (r >= 0)
                r = agent_parts_new(g, &g->parts);
        if (r < 0)
                return r;
        g->started = host_now(b->host);
        agent_registry_look(b);
        return 0;
}

void agent_registry_stop(struct bus *b) {
        struct agent_registry *g = agent_of(b)->enrollment;

        if (!g)
                return;
        g->registry = registry_free(g->registry);
        g->news = sd_event_source_disable_unref(g->news);
        agent_registry_forget(g);
        g->parts = agent_parts_free(g->parts);
        free(g);
        agent_of(b)->enrollment = NULL;
}
