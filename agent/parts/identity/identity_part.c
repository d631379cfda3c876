/* SPDX-License-Identifier: Apache-2.0 */
#include "identity_part.h"

#include "calls.h"
#include "check_words.h"
#include "log.h"
#include "loop_timer.h"
#include "metadata_copy.h"
#include "metadata_token.h"
#include "netcfg_call.h"
#include "own_state.h"
#include "paths.h"

#define LIVE "metadata"

_Static_assert(METADATA_NICS_MAX <= MTU_HANDOVER_MAX, "every NIC fits into one handover");

struct identity_state {
        struct bus *bus;
        char chips_source[160];
        unsigned source, round; /* of the findings about the identity */
        bool unchecked;         /* it was read and not checked yet */
        struct own_state own;

        struct metadata_token *token; /* NULL: none is wanted, or no server is asked */
        struct metadata *metadata; /* NULL: no server is asked */
        struct file_writer *writer;
        sd_event_source *patience;  /* its end: the last good copy stands in, and no instance id comes */
        struct metadata_copy known; /* what the metadata server said; taken is 0: nothing */
        char known_origin[METADATA_ORIGIN_MAX];
        bool others_copy; /* the last good copy is another machine's: it was passed over */
        struct mtu_handover *handover; /* NULL: the MTUs are sent to nobody */
};

static const char *copy_path(const struct identity_state *p) {
        return bus_own(p->bus, p->bus->settings.metadata_copy, PATH_METADATA_COPY);
}

/* The address of the metadata server; NULL: none is asked. */
static const char *server_address(const struct identity_state *p) {
        const char *text = bus_own(p->bus, p->bus->settings.metadata_host, METADATA_ADDRESS);

        return text && !streq(text, "none") ? text : NULL;
}

/* --- Who this host is and what is wanted of it --------------------------------------------------------- */

static void read_host(struct bus *b) {
        if (host_name(b->host, b->name) < 0)
                (void) snprintf(b->name, sizeof(b->name), "unknown");
        if (host_boot_id(b->host, b->boot_id) < 0)
                b->boot_id[0] = 0;
        if (host_read(b->host, "/etc/machine-id", b->machine_id, sizeof(b->machine_id), NULL) < 0)
                b->machine_id[0] = 0; /* host.id is then not sent */
        b->started_real = host_now_real(b->host);
        b->boot_real = b->started_real - MIN(b->started_real, host_now(b->host));
}

static int load_identity(struct identity_state *p) {
        struct identity fresh = IDENTITY_NULL;
        struct bus *b = p->bus;
        int r = identity_load(b->host, NULL, &fresh);

        if (r < 0)
                return log_error_errno(r, "the identity of this host cannot be read: %m");
        r = metadata_facts_fill(&p->known.facts, p->known_origin, &fresh);
        if (r < 0) {
                identity_clear(&fresh);
                return log_error_errno(r, "the identity of this host cannot be completed: %m");
        }
        identity_clear(&b->identity);
        b->identity = fresh;
        if (identity_get(&b->identity, IDENTITY_HOST_NAME))
                (void) snprintf(b->name, sizeof(b->name), "%s",
                                identity_get(&b->identity, IDENTITY_HOST_NAME));
        return 0;
}

/* Probes look every ten seconds; the file changes with the package, or by a site's hand and a reload. */
static void load_machine(struct bus *b) {
        int r;

        b->machine = (struct machine_type) { .chips = 0 };
        b->context.machine_type = identity_get(&b->identity, IDENTITY_MACHINE_TYPE);
        r = b->context.machine_type ? machine_type(b->host, b->context.machine_type, &b->machine) : -ENOENT;
        if (r == 0 || r == -ENOENT)
                b->context.machine = &b->machine;
}

static void load_wanted(struct identity_state *p) {
        struct intent fresh = { 0 };
        struct bus *b = p->bus;
        int r = intent_load(b->host, NULL, &fresh);

        if (r < 0)
                (void) log_warning_errno(r,
                                         "no profile can be read from %s: settings of NICs and sysctls are "
                                         "not checked: %m",
                                         PATH_PROFILES);
        else
                b->intent = fresh;
        b->context = (struct probe_context) { .intent = r < 0 ? NULL : &b->intent };
        load_machine(b);
        if (identity_is_derived(&b->identity,
                                IDENTITY_CHIPS) || /* machines.conf then says it, with its source */
            identity_get_u32(&b->identity, IDENTITY_CHIPS, &b->context.chips_wanted) < 0)
                return;
        (void) snprintf(p->chips_source, sizeof(p->chips_source), "%s",
                        b->identity.fields[IDENTITY_CHIPS].origin);
        b->context.chips_source = p->chips_source;
}

static void check_identity(struct identity_state *p) {
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL;
        const struct identity *i = &p->bus->identity;

        p->unchecked = false;
        p->round++;
        /* A machine without TPUs of which nobody says anything else has no slice, and needs none. */
        if ((!p->bus->intent.no_tpu || identity_get(i, IDENTITY_SLICE_NAME) ||
             identity_get(i, IDENTITY_ACCELERATOR_TYPE)) &&
            identity_check(i, &list) < 0)
                return;
        for (size_t k = 0; k < list.n; k++)
                bus_take_finding(p->bus, p->source, p->round, &list.items[k]);
        bus_settle(p->bus, p->source, p->round);
}

/* All of it is read again, and what follows from it. */
static void read_again(struct identity_state *p) {
        if (load_identity(p) < 0)
                return;
        load_wanted(p);
        (void) bus_describe(p->bus);
        check_identity(p);
        bus_tell(p->bus, BUS_IDENTITY);
}

/* --- What the metadata server says --------------------------------------------------------------------- */

static void hand_over_mtu(struct identity_state *p) {
        struct mtu_entry entries[MTU_HANDOVER_MAX];
        size_t n = 0;

        if (!p->handover)
                return;
        for (size_t i = 0; i < p->known.facts.n_nics; i++) {
                const struct metadata_nic *nic = &p->known.facts.nics[i];

                if (nic->mtu == 0)
                        continue;
                entries[n].mtu = nic->mtu;
                memcpy(entries[n++].mac, nic->mac, sizeof(nic->mac));
        }
        mtu_handover_offer(p->handover, entries, n, p->known_origin);
}

static void use_known(struct identity_state *p) {
        read_again(p);
        hand_over_mtu(p);
}

/* tpu-netcfg's file says what it took: probes check by the same. */
static void on_mtu_taken(void *userdata) {
        read_again(userdata);
}

static void on_changed(const struct metadata_facts *f, void *userdata) {
        struct identity_state *p = userdata;
        struct metadata_copy fresh = { .taken = host_now_real(p->bus->host) };
        int r;

        r = metadata_facts_copy(f, &fresh.facts);
        if (r < 0) {
                (void) log_error_errno(r, "what the metadata server says is lost until it says more: %m");
                return;
        }
        metadata_facts_clear(&p->known.facts);
        p->known = fresh;
        (void) snprintf(p->known.boot_id, sizeof(p->known.boot_id), "%s", p->bus->boot_id);
        (void) snprintf(p->known_origin, sizeof(p->known_origin), "%s", LIVE);
        log_info("metadata server: machine type %s, name %s, %zu network interfaces",
                 f->machine_type[0] ? f->machine_type : "unknown", f->name[0] ? f->name : "unknown",
                 f->n_nics);
        r = p->writer ? metadata_copy_put(p->writer, &p->known) : 0;
        if (r < 0)
                (void) log_warning_errno(r, "the metadata server's answers cannot be kept in %s: %m",
                                         copy_path(p));
        use_known(p);
        if (f->said[METADATA_ID][IDENTITY_INSTANCE_ID]) /* behind its name, by which people know this host */
                (void) own_state_learn(&p->own, f->said[METADATA_ID][IDENTITY_INSTANCE_ID]);
}

static void on_notice(enum metadata_notice kind, bool ahead, const char *text, void *userdata) {
        struct identity_state *p = userdata;

        bus_publish(p->bus, &(struct bus_news){ .topic = BUS_NOTICE,
                                                .notice = { .kind = kind, .ahead = ahead, .text = text } });
}

static void on_failed(const char *why, void *userdata) {
        log_info("metadata server %s: %s", server_address(userdata), why);
}

/* --- The copy of its answers --------------------------------------------------------------------------- */

static void on_written(uint64_t number, int result, void *userdata) {
        (void) number;
        if (result < 0)
                (void) log_warning_errno(result, "the metadata server's answers are not kept in %s: %m",
                                         copy_path(userdata));
}

/* Copy= is a path of this machine, as SpoolDirectory= is, whatever the root. */
static int read_copy(struct identity_state *p, struct metadata_copy *ret) {
        _cleanup_host_ struct host here = HOST_NULL;
        char why[METADATA_WHY_MAX] = "";
        int r;

        r = host_open(NULL, &here);
        if (r == 0)
                r = metadata_copy_read(&here, copy_path(p), ret, why);
        if (r == 0 && !metadata_copy_is_ours(p->bus->host, ret)) {
                p->others_copy = true;
                metadata_facts_clear(&ret->facts);
                (void) snprintf(why, sizeof(why), "%s", METADATA_COPY_OTHERS);
                r = -EREMOTE;
        }
        if (r < 0 && r != -ENOENT)
                log_warning("%s is passed over: %s", copy_path(p), why[0] ? why : strerror(-r));
        return r;
}

/*
 * A server that has not answered since start. Not at its first failure: at boot the network may come up
 * after us, and what the server says now is better than what it said before.
 */
static int on_patience_ended(sd_event_source *source, uint64_t usec, void *userdata) {
        struct identity_state *p = userdata;
        struct metadata_copy copy = { 0 };

        (void) source, (void) usec;
        if (!own_state_learn(&p->own, NULL) || p->known.taken > 0 || !p->writer || read_copy(p, &copy) < 0)
                return 0;
        p->known = copy;
        p->known.taken = MAX(p->known.taken, (usec_t) 1);
        (void) metadata_copy_origin(&copy, p->known_origin);
        log_notice("identity and the networks' MTU are from %s", p->known_origin);
        use_known(p);
        return 0;
}

static int start_copy(struct identity_state *p) {
        sd_event *e = p->bus->event;
        int r = 0;

        if (copy_path(p))
                r = file_writer_new(e, copy_path(p), &metadata_copy_file, on_written, p, &p->writer);
        if (r >= 0)
                r = loop_timer_new(e, CLOCK_BOOTTIME, 0, "metadata-patience", on_patience_ended, p,
                                   &p->patience);
        return r < 0 ? r : loop_timer_in(p->patience, p->bus->settings.metadata_copy_after);
}

static void on_token(void *userdata) {
        struct identity_state *p = userdata;

        bus_tell(p->bus, BUS_TOKEN);
}

static int start_token(struct identity_state *p) {
        const struct metadata_token_options o = {
                .address = server_address(p),
                .user_agent = "tpu-hostd/" TPU_HOSTD_VERSION,
                .audience = p->bus->settings.token_audience,
                .bearer = &p->bus->bearer,
                .decided = on_token,
                .userdata = p,
        };

        return *o.audience ? metadata_token_new(p->bus->event, &o, &p->token) : 0;
}

static int start_metadata(struct identity_state *p) {
        const struct metadata_options o = {
                .address = server_address(p),
                .user_agent = "tpu-hostd/" TPU_HOSTD_VERSION,
                .changed = on_changed,
                .failed = on_failed,
                .notice = on_notice,
                .userdata = p,
        };
        const char *netcfg = bus_own(p->bus, p->bus->settings.netcfg_socket, PATH_NETCFG_SOCKET);
        int r = 0;

        if (!o.address)
                return 0;
        if (netcfg)
                r = mtu_handover_new(p->bus->event, netcfg, on_mtu_taken, p, &p->handover);
        if (r >= 0)
                r = start_copy(p);
        if (r >= 0)
                r = metadata_new(p->bus->event, &o, &p->metadata);
        if (r >= 0)
                r = start_token(p);
        return r < 0 ? log_error_errno(r, "the metadata server cannot be asked: %m") : 0;
}

/* --- The part ------------------------------------------------------------------------------------------ */

static int start_identity(void *self) {
        struct identity_state *p = self;
        int r;

        p->source = bus_sources(p->bus, 1);
        read_host(p->bus);
        r = load_identity(p);
        if (r < 0)
                return r;
        own_state_start(p->bus, !server_address(p), &p->own);
        load_wanted(p);
        p->unchecked = true; /* until there is a spool for what a check reports */
        return start_metadata(p);
}

static void reload_identity(void *self) {
        read_again(self);
}

static void judge_token(const struct identity_state *p, struct sink *s) {
        const char *audience = p->bus->settings.token_audience, *server = server_address(p);
        struct metadata_token_status status = { .why = "no metadata server is asked" };
        usec_t now = host_now_real(p->bus->host);
        struct finding f;

        if (p->token)
                metadata_token_get_status(p->token, &status);
        if (!*audience || p->bus->bearer.awaited)
                return;
        finding_init(&f, "metadata.token", "");
        finding_set(f.source, "[Metadata] TokenAudience=%.200s", audience);
        f.verdict = VERDICT_OK;
        if (status.expires > now)
                finding_set(f.found, "good for %" PRIu64 " min",
                            (status.expires - now) / (60 * USEC_PER_SEC));
        else {
                finding_set(f.found, "%s", status.expires > 0 ? "over" : "none");
                check_say(&f, WORDS_TOKEN_MISSING, status.why[0] ? status.why : "the clock was set",
                          server ? server : METADATA_ADDRESS);
        }
        s->finding(s, &f);
}

static void sample_metadata(void *self, struct bus_sink *s) {
        struct identity_state *p = self;
        const char *host = p->bus->settings.metadata_host;
        struct metadata_status status;
        struct finding f;

        if (p->unchecked) {
                own_state_report(&p->own);
                check_identity(p);
        }
        judge_token(p, &s->sink);
        if (!p->metadata)
                return;
        metadata_get_status(p->metadata, &status);
        if (!status.answering && !status.why[0])
                return; /* the first question is still open */
        finding_init(&f, "metadata", "");
        finding_set(f.source, "[Metadata] Host=%s", host[0] ? host : server_address(p));
        f.verdict = VERDICT_OK;
        if (status.answering)
                finding_set(f.found, "answering");
        else if (p->known.taken == 0) {
                finding_set(f.found, "no metadata server; the static file alone counts");
                finding_set(f.reason, "%s", status.why);
                if (p->others_copy)
                        check_say(&f, WORDS_METADATA_OTHERS, status.why, copy_path(p), METADATA_COPY_OTHERS,
                                  server_address(p));
        } else {
                finding_set(f.found, "away");
                check_say(&f, WORDS_METADATA_AWAY, status.why, p->known_origin, server_address(p));
        }
        s->sink.finding(&s->sink, &f);
}

static int get_identity(void *self, const struct http_request *r, struct http_reply *ret) {
        const struct identity_state *p = self;

        (void) r;
        return answer_json(ret, 200, identity_to_json(&p->bus->identity));
}

static void stop_identity(void *self) {
        struct identity_state *p = self;

        p->metadata = metadata_free(p->metadata);
        p->token = metadata_token_free(p->token);
        metadata_facts_clear(&p->known.facts);
        p->patience = sd_event_source_disable_unref(p->patience);
        p->writer = file_writer_free(p->writer);
        p->handover = mtu_handover_free(p->handover);
}

static const struct part_route routes[] = {
        { ROUTE("GET", "/v1/identity"), .call = get_identity },
        PART_ROUTES_END,
};

const struct part identity_part = {
        .name = "identity",
        .size = sizeof(struct identity_state),
        .routes = routes,
        .start = start_identity,
        .reload = reload_identity,
        .sample = sample_metadata,
        .stop = stop_identity,
};
