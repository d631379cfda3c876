/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <sys/random.h>

#include "check_words.h"
#include "calls.h"
#include "clock.h"
#include "json_text.h"
#include "log.h"
#include "member_state.h"
#include "texts.h"
#include "uplink_part.h"

#define NAMES_APART (300 * USEC_PER_SEC)
#define NAMES_AGAIN (20 * USEC_PER_SEC)

static struct member_state *state_of(const struct bus *b) {
        return bus_part(b, &member_part);
}

/* --- Its state ----------------------------------------------------------------------------------------- */

static void report_conflict(struct member_state *m) {
        (void) bus_emit(m->bus,
                        EVENT_OF(SLICE_CONFLICT, .slice = m->who.slice, .worker = m->who.worker,
                                 .machine = member_machine(m->bus), .reason = m->status.why),
                        NULL);
}

/* Of several collectors the one that led last is asked first by the next life of this program, too. */
static void remember_leader(struct member_state *m) {
        if (m->who.kind != REGISTRY_COLLECTOR || m->status.state != REGISTRY_MEMBER ||
            !strpbrk(m->who.endpoint, ", \t") || streq(m->leader, m->status.why))
                return;
        (void) snprintf(m->leader, sizeof(m->leader), "%s", m->status.why);
        run_parts_keep(m);
}

static void on_status(const struct registry_status *s, void *userdata) {
        struct member_state *m = userdata;
        bool other = m->status.state != s->state;

        m->status = *s;
        remember_leader(m);
        bus_publish(m->bus, &(struct bus_news){ .topic = BUS_REGISTRY });
        if (!other)
                return;
        if (s->state == REGISTRY_CONFLICT && !m->conflict_reported)
                report_conflict(m);
        m->conflict_reported =
                s->state == REGISTRY_CONFLICT || (m->conflict_reported && s->state == REGISTRY_AWAY);
        if (s->state == REGISTRY_MEMBER)
                log_info("registry: member, worker %u of slice %s (%s)", m->who.worker, m->who.slice,
                         s->why);
        else
                log_notice("registry: %s: %s", registry_state_name(s->state), s->why);
        member_judge(m);
        if (s->state == REGISTRY_MEMBER)
                run_parts_act(m);
}

static void on_notice(const char *text, void *userdata) {
        (void) userdata;
        log_notice("registry: %s", text);
}

static void on_clock(usec_t real, void *userdata) {
        struct member_state *m = userdata;

        m->clock_known = true;
        m->clock_ahead = (int64_t) host_now_real(m->bus->host) - (int64_t) (real + USEC_PER_SEC / 2);
}

static const struct registry_events registry_events = { .clock = on_clock,
                                                        .record = member_record,
                                                        .status = on_status,
                                                        .complete = member_complete,
                                                        .notice = on_notice };

/* --- Which registry ------------------------------------------------------------------------------------ */

/* Whether somebody between could answer in the place of one of the URLs. */
static bool goes_in_the_clear(const char *urls) {
        static const char *const safe[] = { "https://", "http://127.", "http://[::1]", "http://localhost:",
                                            "http://localhost/" };

        for (const char *u = urls + strspn(urls, " ,"); *u; u += strcspn(u, " ,"), u += strspn(u, " ,")) {
                bool is_safe = false;

                for (size_t i = 0; i < ELEMENTSOF(safe); i++)
                        is_safe = is_safe || startswith(u, safe[i]);
                if (!is_safe)
                        return true;
        }
        return false;
}

/*
 * kind and endpoint, by the settings. A registry is obeyed: it starts runs and gives orders. So where
 * records go in the clear is one only if the site says so in [Registry].
 */
static void choose_kind(const struct bus *b, struct member *n) {
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
        else if (b->settings.endpoint[0]) {
                n->kind = REGISTRY_COLLECTOR;
                n->in_the_clear = goes_in_the_clear(b->settings.endpoint);
        }
        if (n->kind == REGISTRY_COLLECTOR && !n->endpoint[0])
                (void) snprintf(n->endpoint, sizeof(n->endpoint), "%s", b->settings.endpoint);
        if (n->kind == REGISTRY_STATIC)
                n->endpoint[0] = 0;
}

/* Who this host is; why_not where that is not known. */
static void choose_names(const struct bus *b, struct member *n) {
        const char *slice = identity_get(&b->identity, IDENTITY_SLICE_NAME);
        uint32_t worker;

        if (n->kind == REGISTRY_NONE)
                return;
        if (n->kind == REGISTRY_COLLECTOR && !n->endpoint[0])
                (void) snprintf(n->why_not, sizeof(n->why_not),
                                "Kind=%s needs Endpoint=", registry_kind_name(n->kind));
        else if (n->in_the_clear) {
                n->by_itself = false; /* nobody asked for it, but they should know */
                (void) snprintf(n->why_not, sizeof(n->why_not),
                                "Endpoint= of [Hostd] has no TLS: it gets records, and may not start runs "
                                "or give orders here");
        } else if (!slice || identity_get_u32(&b->identity, IDENTITY_WORKER_ID, &worker) < 0)
                (void) snprintf(n->why_not, sizeof(n->why_not),
                                "%s of this host is not known: it is a member of nothing",
                                slice ? "the worker id" : "the slice's name");
        else if (!name_is_for_registry(slice) || !name_is_for_registry(b->name))
                (void) snprintf(n->why_not, sizeof(n->why_not), "'%.64s' is no name that a registry takes",
                                name_is_for_registry(slice) ? b->name : slice);
        else {
                n->worker = worker;
                (void) snprintf(n->slice, sizeof(n->slice), "%s", slice);
                (void) snprintf(n->host, sizeof(n->host), "%.63s", b->name);
        }
}

static bool is_same_member(const struct member *a, const struct member *b) {
        return a->kind == b->kind && a->by_itself == b->by_itself &&
               a->in_the_clear == b->in_the_clear && streq(a->endpoint, b->endpoint) &&
               streq(a->host, b->host) && streq(a->slice, b->slice) && a->worker == b->worker &&
               streq(a->why_not, b->why_not);
}

static void open_registry(struct member_state *m) {
        struct tls_files *t = &m->tls;
        const struct registry_options o = {
                .kind = m->who.kind,
                .endpoints = m->who.endpoint,
                .first = m->leader,
                .tenant = m->bus->settings.registry.tenant,
                .ca = t->path[TLS_CA][0] ? t->path[TLS_CA] : NULL,
                .certificate = t->path[TLS_CERT][0] ? t->path[TLS_CERT] : NULL,
                .key = t->path[TLS_KEY][0] ? t->path[TLS_KEY] : NULL,
                .crl = t->path[TLS_CRL][0] ? t->path[TLS_CRL] : NULL,
                .bearer = &m->bus->bearer,
                .splay = m->bus->settings.registry.splay,
                .slice = m->who.slice,
                .worker = m->who.worker,
        };
        char why[256] = "";
        int r;

        assert(!m->registry && m->who.slice[0]);
        m->status = (struct registry_status){ .since = host_now(m->bus->host) };
        r = registry_new(m->bus->event, &o, &registry_events, m, &m->registry, why);
        if (r < 0) {
                (void) snprintf(m->who.why_not, sizeof(m->who.why_not), "%.150s",
                                why[0] ? why : strerror(-r));
                log_warning("no registry: %s", m->who.why_not);
        }
}

/* Identity or settings may have changed. */
static void choose_again(struct member_state *m) {
        struct member n = { 0 };

        choose_kind(m->bus, &n);
        choose_names(m->bus, &n);
        if (!is_same_member(&m->who, &n)) {
                m->registry = registry_free(m->registry);
                bus_publish(m->bus,
                            &(struct bus_news){ .topic = BUS_REGISTRY, .registry = { .other = true } });
                member_forget(m);
                m->who = n;
        }
        if (m->who.slice[0] && !m->registry && !m->who.why_not[0] && !m->bus->undecided)
                open_registry(m);
        bus_tell(m->bus, BUS_MEMBER);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

/* The registry's own files, else the uplink's. */
static int choose_tls(struct member_state *m) {
        const struct settings *s = &m->bus->settings;
        const char *own[] = { s->registry.ca_file, s->registry.cert_file, s->registry.key_file,
                                s->registry.crl },
                   *others[] = { s->uplink.ca_file, s->uplink.cert_file, s->uplink.key_file, s->uplink.crl };

        for (size_t f = 0; f < _TLS_FILE_MAX; f++)
                if (tls_credential_path(tls_client_names.key[f], own[f][0] ? own[f] : others[f],
                                        m->tls.path[f]) < 0)
                        return -ENAMETOOLONG;
        (void) tls_files_look(&m->tls);
        return 0;
}

/* "BOOT.START": of two lives of one boot a collector knows which began first. Where the boot has no id
 * nothing is known of their order. */
static void name_life(struct member_state *m) {
        const char *boot = m->bus->boot_id;
        char id[17] = "";
        uint64_t life = 0;

        for (size_t n = 0; *boot && n + 1 < sizeof(id); boot++)
                if (*boot != '-')
                        id[n++] = *boot;
        (void) getrandom(&life, sizeof(life), GRND_NONBLOCK); /* without entropy yet: the start time does */
        if (strlen(id) + 1 == sizeof(id))
                (void) snprintf(m->incarnation, sizeof(m->incarnation), "%s.%016" PRIx64, id,
                                host_now(m->bus->host));
        else
                (void) snprintf(m->incarnation, sizeof(m->incarnation), "%016" PRIx64,
                                life ^ m->bus->started_real);
}

static int start_member(void *self) {
        struct member_state *m = self;
        int r;

        m->source = bus_sources(m->bus, 1);
        m->who.kind = _REGISTRY_KIND_MAX;                     /* none was chosen yet */
        name_life(m);
        r = member_start_news(m);
        if (r >= 0)
                r = choose_tls(m);
        if (r >= 0)
                r = run_parts_start(m);
        if (r < 0)
                return r;
        m->started = host_now(m->bus->host);
        m->up = true;
        choose_again(m);
        return 0;
}

static void on_names(const struct finding *f, void *userdata) {
        struct member_state *m = userdata;

        m->names = *f;
        m->looking = worker_names_free(m->looking);
        member_judge(m);
}

/* Every five minutes, and every 20 s while something is wrong with them. */
static void look_at_names(struct member_state *m) {
        const char *list = identity_get(&m->bus->identity, identity_workers(&m->bus->identity));
        usec_t now = host_now(m->bus->host),
               apart = m->names.check[0] && m->names.verdict == VERDICT_OK ? NAMES_APART : NAMES_AGAIN;

        if (m->looking || !m->registry || !m->bus->host->real_root || (m->looked && now < m->looked + apart))
                return;
        /* Without a list, or a slice's record, there is nothing to compare. */
        if (worker_names_new(m->bus->event, list, json_object_get(m->slice_record, "roster"), m->who.worker,
                             on_names, m, &m->looking) == 0)
                m->looked = now;
}

/* Behind the samples of all parts before it: it hands figures on. */
static void sample_member(void *self, struct bus_sink *s) {
        struct member_state *m = self;

        (void) s; /* its checks are judged between two ticks, too: they have rounds of their own */
        look_at_names(m);
        member_judge(m); /* also when a reload has taken the registry away: its checks go with it */
        if (!m->registry && !m->who.why_not[0])
                return;
        if (m->registry && tls_files_configured(&m->tls) && tls_files_look(&m->tls))
                registry_renew(m->registry);
        if (m->registry)
                member_report_figures(m);
        bus_publish(m->bus, &(struct bus_news){ .topic = BUS_REGISTRY });
        member_apply_orders(m); /* one of this host's own may have stood before it */
        bus_tell(m->bus, BUS_MEMBER);
}

void member_figure(const struct bus *b, const char *run, const char *key, json_t *value) {
        member_keep_figure(bus_part(b, &member_part), run, key, value);
}

void member_say_pairs(const struct bus *b, json_t *value) {
        struct member_state *m = bus_part(b, &member_part);

        json_decref(m->pairs);
        m->pairs = value;
        bus_tell(m->bus, BUS_MEMBER);
}

const struct tls_files *member_tls(const struct bus *b) {
        return &state_of(b)->tls;
}

void member_report_now(const struct bus *b) {
        struct member_state *m = bus_part(b, &member_part);

        if (m->registry)
                member_report_figures(m);
}

static void hear_member(void *self, const struct bus_news *n) {
        struct member_state *m = self;

        if (!m->up)
                return;
        if (n->topic == BUS_MEMBER)
                member_report_soon(m);
        if (n->topic == BUS_IDENTITY || n->topic == BUS_DECIDED)
                choose_again(m);
        if (n->topic == BUS_TOKEN && m->registry)
                registry_renew(m->registry);
        if (n->topic == BUS_RUNS)
                run_parts_listed(m);
        if (n->topic == BUS_SUSPICION) { /* reported at once, with the steps of now */
                run_parts_freshen(m);
                bus_tell(m->bus, BUS_MEMBER);
        }
}

static void stop_member(void *self) {
        struct member_state *m = self;

        m->up = false;
        m->registry = registry_free(m->registry);
        m->news = sd_event_source_disable_unref(m->news);
        m->looking = worker_names_free(m->looking);
        json_decref(m->figures);
        json_decref(m->pairs);
        m->figures = m->pairs = NULL;
        member_forget(m);
        run_parts_stop(m);
}

/* --- What others see of it ----------------------------------------------------------------------------- */

const struct member *member_of(const struct bus *b) {
        return &state_of(b)->who;
}

const char *member_incarnation(const struct bus *b) {
        return state_of(b)->incarnation;
}

const char *member_address(const struct bus *b) {
        const json_t *list = json_object_get(state_of(b)->said, "address");
        const char *text = json_string_value(json_array_get(list, 0));

        return text ? text : "";
}

struct registry *member_registry(const struct bus *b) {
        return state_of(b)->registry;
}

struct registry *member_collector(const struct bus *b) {
        const struct member_state *m = state_of(b);

        return m->who.kind == REGISTRY_COLLECTOR && m->status.state == REGISTRY_MEMBER ? m->registry : NULL;
}

const json_t *member_slice_record(const struct bus *b) {
        return state_of(b)->slice_record;
}

const json_t *member_run_record(const struct bus *b, const char *name) {
        return run_parts_find(state_of(b), name);
}

static json_t *registry_json(const struct member_state *m) {
        usec_t now = host_now(m->bus->host), real = host_now_real(m->bus->host);
        usec_t since = real - MIN(real, now - MIN(now, m->status.since));
        bool any = m->registry != NULL;

        return json_pack("{s:s, s:s, s:s, s:s, s:o, s:b}", "kind", registry_kind_name(m->who.kind),
                         "endpoint", m->who.endpoint, "state",
                         any ? registry_state_name(m->status.state) : "none", "why",
                         any ? m->status.why : m->who.why_not, "since",
                         any ? answer_instant(since) : json_null(), "may_claim",
                         any && m->status.may_claim);
}

static int status_member(void *self, json_t *status) {
        const struct member_state *m = self;
        json_t *slice = m->slice_record ? json_incref(m->slice_record) : json_null();

        /* Each takes its reference over, and refuses a NULL. */
        if (json_object_set_new(status, "slice", slice) < 0 ||
            json_object_set_new(status, "registry", registry_json(m)) < 0 ||
            json_object_set_new(status, "runs", run_parts_to_json(m)) < 0)
                return -ENOMEM;
        return 0;
}

const struct part member_part = {
        .name = "member",
        .size = sizeof(struct member_state),
        .routes = run_calls,
        .start = start_member,
        .sample = sample_member,
        .hear = hear_member,
        .status = status_member,
        .stop = stop_member,
};
