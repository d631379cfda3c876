/* SPDX-License-Identifier: Apache-2.0 */
#include "uplink_part.h"

#include <assert.h>
#include <sys/statvfs.h>

#include "aside.h"
#include "calls.h"
#include "check_words.h"
#include "clock.h"
#include "json_text.h"
#include "log.h"

#define DISK_SHARE 50 /* the spool takes at most this part of its disk: 2 % */
#define SPOOL_LEAST ((uint64_t) 4 * 1024 * 1024)

struct uplink_part_state {
        struct bus *bus;
        struct uplink *uplink;
        struct aside aside;
        struct uplink *spare; /* telemetry.h */
        char spare_path[PATH_MAX];
        uint64_t limit; /* bytes of this host's own spool; half of it while another's lies beside it */
        uint64_t damaged[_UPLINK_CLASS_MAX]; /* as it was reported last */
};

struct uplink *uplink_of(const struct bus *b) {
        return ((const struct uplink_part_state *) bus_part(b, &uplink_part))->uplink;
}

/* --- Files of TLS -------------------------------------------------------------------------------------- */

int tls_credential_path(const char *key, const char *value, char ret[static TLS_PATH_MAX]) {
        const char *folder, *name;
        int n;

        if (!startswith(value, "credential:"))
                n = snprintf(ret, TLS_PATH_MAX, "%s", value);
        else {
                name = value + strlen("credential:");
                folder = getenv("CREDENTIALS_DIRECTORY");
                if (!folder)
                        log_warning("%s=%s: this service has no credentials; LoadCredential=%s:FILE belongs "
                                    "into its unit",
                                    key, value, name);
                n = snprintf(ret, TLS_PATH_MAX, "%s/%s",
                             folder ? folder : "/run/credentials/tpu-hostd.service", name);
        }
        if (n >= 0 && n < TLS_PATH_MAX)
                return 0;
        return log_error_errno(ENAMETOOLONG, "%s=%s: %m", key, value);
}

void certificate_end_judge(const struct certificate_end *c, usec_t now_real, struct finding *f) {
        usec_t life = c->not_after > c->not_before ? c->not_after - c->not_before : 0;
        usec_t notice = MIN(life / 3, CERTIFICATE_NOTICE);
        char end[CLOCK_TEXT_MAX], hours[24];

        finding_set(f->found, "ends at %s", clock_text(c->not_after, end));
        f->verdict = c->gravest;
        if (now_real >= c->not_after)
                check_say(f, WORDS_CERTIFICATE_EXPIRED, c->path, c->what_then);
        else if (now_real < c->not_before)
                check_say(f, WORDS_CERTIFICATE_EARLY, c->path);
        else if (c->not_after - now_real < notice) {
                (void) snprintf(hours, sizeof(hours), "%" PRIu64,
                                (c->not_after - now_real) / (3600 * USEC_PER_SEC));
                check_say(f, WORDS_CERTIFICATE_ENDS, c->path, hours);
        } else
                f->verdict = VERDICT_OK;
}

/* --- Start --------------------------------------------------------------------------------------------- */

static uint64_t spool_limit(const struct settings *s) {
        char parent[sizeof(s->spool_directory)];
        const char *slash = strrchr(s->spool_directory, '/');
        struct statvfs fs;

        /* At the first start there is no spool yet, but the directory that it will be in. */
        (void) snprintf(parent, sizeof(parent), "%.*s", (int) (slash ? slash - s->spool_directory : 0),
                        s->spool_directory);
        if (statvfs(s->spool_directory, &fs) < 0 && statvfs(parent[0] ? parent : "/", &fs) < 0)
                return s->spool_bytes;
        return MIN(s->spool_bytes, MAX(SPOOL_LEAST, (uint64_t) fs.f_blocks * fs.f_frsize / DISK_SHARE));
}

static void on_durable(enum uplink_class c, uint64_t seq, void *userdata) {
        bus_publish(userdata,
                    &(struct bus_news){ .topic = BUS_DURABLE, .durable = { .class = c, .seq = seq } });
}

static enum severity gap_severity(enum spool_loss why) {
        return why == SPOOL_THINNED ? SEVERITY_INFO : why == SPOOL_DAMAGED ? SEVERITY_ERROR : SEVERITY_WARN;
}

static int on_gap(enum uplink_class c, uint64_t id, const struct spool_gap *g, enum spool_loss why,
                  uint64_t *ret_seq, void *userdata) {
        /* Else there are none, or nobody knows. */
        bool items = c != UPLINK_EVENTS && why != SPOOL_DAMAGED;
        char spool[17];

        (void) snprintf(spool, sizeof(spool), "%016" PRIx64, id);
        return bus_emit(userdata,
                        EVENT_AS(SPOOL_GAP, gap_severity(why), .spool_id = spool,
                                 .class = uplink_class_name(c), .gap = (int64_t) g->number,
                                 .reason = uplink_loss_name(why), .from_seq = (int64_t) g->from_seq,
                                 .to_seq = (int64_t) g->to_seq, .records = (int64_t) g->records,
                                 .points = items && c != UPLINK_LOGS ? (int64_t) g->items : EVENT_ABSENT,
                                 .lines = items && c == UPLINK_LOGS ? (int64_t) g->items : EVENT_ABSENT),
                        ret_seq);
}

static int open_uplink(struct bus *b, const struct uplink_options *own, struct uplink **ret) {
        const struct settings *s = &b->settings;
        char ca[TLS_PATH_MAX], cert[TLS_PATH_MAX], key[TLS_PATH_MAX], crl[TLS_PATH_MAX];
        struct uplink_options o = *own;
        int r;

        o.endpoint = s->endpoint;
        o.proxy = s->uplink.proxy;
        o.timeout = s->uplink.timeout;
        o.plain = !s->uplink.compression;
        o.ca_file = ca;
        o.cert_file = cert;
        o.key_file = key;
        o.crl = crl;
        o.bearer = &b->bearer;
        o.bearer_endpoints = s->registry.endpoint;
        o.log_bytes = own->aside ? 0 : s->run_log_bytes;
        o.user_agent = "tpu-hostd/" TPU_HOSTD_VERSION;
        o.on_gap = on_gap;
        o.gap_pause = MIN(6 * s->metrics_interval, UPLINK_GAP_PAUSE);
        o.userdata = b;
        if (tls_credential_path("CaFile", s->uplink.ca_file, ca) < 0 ||
            tls_credential_path("CertFile", s->uplink.cert_file, cert) < 0 ||
            tls_credential_path("KeyFile", s->uplink.key_file, key) < 0 ||
            tls_credential_path("Crl", s->uplink.crl, crl) < 0)
                return -ENAMETOOLONG;
        r = uplink_new(b->event, &o, ret);
        return r < 0 ? log_error_errno(r, "the uplink cannot start with spool %s and endpoint '%s': %m",
                                       o.spool_dir, o.endpoint)
                     : 0;
}

#define SPARE_BYTES ((uint64_t) 8 * 1024 * 1024) /* of the service's memory, while the disk takes nothing */

/* In the runtime directory that systemd makes for this service alone, and which goes with it: the first of
 * RuntimeDirectory= (systemd.exec(5): with ':' between them). */
static void open_spare(struct uplink_part_state *p) {
        const char *runtime = getenv("RUNTIME_DIRECTORY");
        const struct uplink_options o = { .spool_dir = p->spare_path,
                                          .max_bytes = SPARE_BYTES,
                                          .held = p->bus->undecided };

        if (!runtime || snprintf(p->spare_path, sizeof(p->spare_path), "%.*s/spool",
                                 (int) strcspn(runtime, ":"), runtime) >= (int) sizeof(p->spare_path))
                return;
        if (open_uplink(p->bus, &o, &p->spare) < 0)
                return; /* logged */
        log_warning("the spool %s takes nothing: records are kept in memory and sent from there",
                    p->bus->settings.spool_directory);
}

/* It is there while a class cannot be written, and until what it holds is sent. */
static void look_at_spare(struct uplink_part_state *p) {
        bool durable = true;

        for (enum uplink_class c = 0; c < _UPLINK_CLASS_MAX; c++)
                durable = durable && uplink_is_durable(p->uplink, c);
        if (!p->spare && !durable)
                open_spare(p);
        else if (p->spare && durable && uplink_is_done(p->spare)) {
                p->spare = uplink_free(p->spare);
                if (machine_state_remove(p->spare_path) >= 0)
                        log_notice("the spool is written again; what was kept in memory is sent");
        }
        p->bus->telemetry.spare = p->spare;
        if (p->spare)
                uplink_refresh(p->spare);
}

static int start_uplink(void *self) {
        struct uplink_part_state *p = self;
        struct bus *b = p->bus;
        struct uplink_options o = { .spool_dir = b->settings.spool_directory,
                                    .held = b->undecided,
                                    .closed = b->spool_closed,
                                    .on_durable = on_durable };
        int r;

        p->limit = spool_limit(&b->settings);
        aside_start(&p->aside, b, open_uplink);
        o.max_bytes = aside_is_there(&p->aside) ? p->limit / 2 : p->limit;
        r = open_uplink(b, &o, &p->uplink);
        if (r < 0)
                return r;
        b->telemetry.uplink = p->uplink;
        look_at_spare(p);
        return bus_describe(b);
}

/* --- Its checks ---------------------------------------------------------------------------------------- */

/* The first endpoint that some class is parked at, or NULL. */
static const struct uplink_endpoint_stats *parked_endpoint(const struct uplink_stats *u,
                                                           const char **ret_why) {
        for (size_t i = 0; i < u->n_endpoints; i++)
                for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                        if (u->endpoints[i].routes[c].parked) {
                                *ret_why = u->endpoints[i].routes[c].why;
                                return &u->endpoints[i];
                        }
        return NULL;
}

static void judge_delivery(const struct bus *b, const struct uplink_stats *u, struct sink *s) {
        const struct uplink_endpoint_stats *parked;
        const char *why = "";
        struct finding f;

        finding_init(&f, "uplink.delivery", "");
        f.verdict = VERDICT_OK;
        parked = parked_endpoint(u, &why);
        if (b->spool_closed)
                check_say(&f, WORDS_SPOOL_OTHERS, b->settings.spool_directory, strerror(b->spool_closed));
        else if (!u->durable)
                check_say(&f, b->telemetry.spare ? WORDS_SPOOL_SPARE : WORDS_SPOOL_LOSES, u->spool_error,
                          b->settings.spool_directory);
        else if (parked)
                check_say(&f, u->parked ? WORDS_PARKED : WORDS_PARKED_ONE, parked->url, why);
        finding_set(f.found, "%s", b->spool_closed         ? "the spool is another machine's"
                                   : !u->durable           ? "the spool cannot be written"
                                   : b->undecided          ? "waits for the instance id: whose spool is it?"
                          : u->n_endpoints == 0   ? "no endpoint: records stay in the spool"
                                   : u->last_error[0]      ? u->last_error
                                                           : "delivering");
        s->finding(s, &f);
}

static void judge_disk(const struct uplink_part_state *p, const struct uplink_stats *u, struct sink *s) {
        bool read_only = strstr(u->spool_error, strerror(EROFS)) != NULL;
        struct finding f;

        check_tell(&f,
                   u->durable  ? WORDS_DAEMON_DISK
                   : read_only ? WORDS_DAEMON_DISK_READ_ONLY
                               : WORDS_DAEMON_DISK_FAILS,
                   "tpu-hostd", p->bus->settings.spool_directory,
                   p->spare ? "records are sent from memory, and what is not sent is lost with it"
                            : "new records are lost",
                   u->spool_error);
        finding_set(f.found, "%s",
                    u->durable ? "can be written" :
                    p->spare   ? "in memory" :
                                 "nothing is kept");
        s->finding(s, &f);
}

static void judge_certificate_end(const struct bus *b, struct finding *f, const struct tls_files *t) {
        const struct certificate_end end = { .not_before = t->not_before,
                                             .not_after = t->not_after,
                                             .path = t->path[TLS_CERT],
                                             .what_then = "endpoints refuse this host; records are kept",
                                             .gravest = VERDICT_FAIL };

        certificate_end_judge(&end, host_now_real(b->host), f);
}

static void judge_certificate(const struct bus *b, const struct uplink_stats *u, struct sink *s) {
        const struct tls_files *t = &u->tls;
        struct finding f;

        if (!tls_files_configured(t))
                return;
        finding_init(&f, "uplink.certificate", "");
        finding_set(f.source, "[Uplink] of hostd.conf");
        f.verdict = VERDICT_OK;
        finding_set(f.found, "no certificate of this host's own");
        if (t->error[0]) {
                finding_set(f.found, "not usable");
                check_say(&f, WORDS_UPLINK_FILES, t->error);
        } else if (t->not_after > 0)
                judge_certificate_end(b, &f, t);
        if (f.verdict == VERDICT_OK && t->warning[0])
                check_say(&f, WORDS_KEY_READABLE, t->warning, t->path[TLS_KEY]);
        s->finding(s, &f);
}

/* --- Its samples --------------------------------------------------------------------------------------- */

/* Why records are gone for good: enum spool_loss, and last the disk. */
#define UPLINK_DROPS (_SPOOL_LOSS_MAX + 1)

static const char *uplink_drop_name(unsigned why) {
        assert(why < UPLINK_DROPS);
        return why < _SPOOL_LOSS_MAX ? uplink_loss_name((enum spool_loss) why) : "disk";
}

static uint64_t uplink_drop_count(const struct uplink_class_stats *c, unsigned why) {
        assert(why < UPLINK_DROPS);
        return why < _SPOOL_LOSS_MAX ? c->lost[why] : c->not_kept;
}

/* How old the oldest record is that waits; 0 when none does, nothing when nobody has looked at it yet. */
static void put_lag(const struct uplink_class_stats *c, const char *name, usec_t now_real, struct sink *s) {
        bool waits = c->spool.records > 0 && c->oldest_real > 0 && now_real > c->oldest_real;

        if (waits || c->spool.records == 0)
                put_double(s, METRIC_UPLINK_LAG,
                           waits ? (double) (now_real - c->oldest_real) / (double) USEC_PER_SEC : 0, name,
                           NULL, NULL);
}

static void put_class(const struct uplink_class_stats *c, const char *name, struct sink *s) {
        put_uint(s, METRIC_UPLINK_KEPT, c->spool.records, name, NULL, NULL);
        put_uint(s, METRIC_UPLINK_KEPT_SIZE, c->spool.bytes, name, NULL, NULL);
        put_uint(s, METRIC_UPLINK_APPENDED, c->spool.appended, name, NULL, NULL);
        put_uint(s, METRIC_UPLINK_SENT, c->sent, name, NULL, NULL);
        put_uint(s, METRIC_UPLINK_RETRIED, c->retried, name, NULL, NULL);
        put_uint(s, METRIC_UPLINK_PARKED, c->parked, name, NULL, NULL);
        put_uint(s, METRIC_UPLINK_IO, c->body_bytes, name, "body", NULL);
        put_uint(s, METRIC_UPLINK_IO, c->wire_bytes, name, "wire", NULL);
        for (unsigned l = 0; l < UPLINK_DROPS; l++)
                put_uint(s, METRIC_UPLINK_DROPPED, uplink_drop_count(c, l), name, uplink_drop_name(l), NULL);
}

static void report_damage(struct uplink_part_state *p, const struct uplink_stats *u) {
        for (enum uplink_class c = 0; c < _UPLINK_CLASS_MAX; c++) {
                uint64_t damaged = u->classes[c].spool.damaged;

                if (damaged == p->damaged[c])
                        continue;
                p->damaged[c] = damaged;
                (void) bus_emit(p->bus,
                                EVENT_OF(SPOOL_DAMAGED, .class = uplink_class_name(c),
                                         .damaged = (int64_t) damaged),
                                NULL);
        }
}

/* --- Its JSON: what waits, was sent, was lost and why, and where it goes ------------------------------- */

static json_t *number(uint64_t n) {
        return json_integer((json_int_t) MIN(n, (uint64_t) INT64_MAX));
}

static json_t *dropped_json(const struct uplink_class_stats *c) {
        json_t *o = json_object();

        for (unsigned l = 0; o && l < UPLINK_DROPS; l++)
                o = json_member_add(o, uplink_drop_name(l), number(uplink_drop_count(c, l)));
        return o;
}

static json_t *class_json(const struct uplink_class_stats *c) {
        return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o}",
                         "kept", number(c->spool.records), "bytes", number(c->spool.bytes), "appended",
                         number(c->spool.appended), "sent", number(c->sent), "retried", number(c->retried),
                         "refused", number(c->refused), "dropped", number(c->spool.dropped_bytes_limit),
                         "damaged", number(c->spool.damaged), "oldest", answer_instant(c->oldest_real),
                         "dropped_by", dropped_json(c), "parked", c->parked, "first_seq",
                         number(c->spool.first_seq), "next_seq", number(c->spool.next_seq), "body_bytes",
                         number(c->body_bytes), "wire_bytes", number(c->wire_bytes));
}

static const char *route_state(const struct uplink_route *r, usec_t now) {
        if (r->parked)
                return "parked";
        if (r->avoid_boot > now)
                return "avoided";
        return r->retry_boot > now ? "waiting" : r->failures > 0 ? "failing" : "good";
}

static json_t *route_json(const struct uplink_route *r, usec_t now, usec_t now_real) {
        usec_t until = MAX(r->retry_boot, r->avoid_boot);

        return json_pack("{s:s, s:o, s:i, s:s, s:o}", "state", route_state(r, now), "sent", number(r->sent),
                         "failures", (int) r->failures, "why", r->why, "until",
                         answer_boot_instant(until > now ? until : 0, now, now_real));
}

static json_t *endpoint_json(const struct uplink_endpoint_stats *e, usec_t now, usec_t now_real) {
        json_t *o = json_pack("{s:s, s:s}", "url", e->url, "dns_error", e->dns_error);

        for (enum uplink_class c = 0; o && c < _UPLINK_CLASS_MAX; c++)
                o = json_member_add(o, uplink_class_name(c), route_json(&e->routes[c], now, now_real));
        return o;
}

static json_t *endpoints_json(const struct uplink_stats *s, usec_t now, usec_t now_real) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < s->n_endpoints; i++)
                list = json_list_add(list, endpoint_json(&s->endpoints[i], now, now_real));
        return list;
}

static json_t *classes_json(const struct uplink_stats *s) {
        json_t *o = json_object();

        for (enum uplink_class c = 0; o && c < _UPLINK_CLASS_MAX; c++)
                o = json_member_add(o, uplink_class_name(c), class_json(&s->classes[c]));
        return o;
}

static json_t *certificate_json(const struct tls_files *t) {
        if (!tls_files_configured(t))
                return json_null();
        return json_pack("{s:s, s:o, s:o, s:s, s:s}", "file", t->path[TLS_CERT], "from",
                         answer_instant(t->not_before), "until", answer_instant(t->not_after), "error",
                         t->error, "warning", t->warning);
}

json_t *uplink_to_json(const struct uplink_stats *s, const char *endpoint, usec_t now, usec_t now_real) {
        return json_pack("{s:s, s:b, s:b, s:s, s:s, s:o, s:o, s:o, s:o}", "endpoint", endpoint, "durable",
                         s->durable, "parked", s->parked, "last_error", s->last_error, "spool_error",
                         s->spool_error, "last_ok",
                         answer_boot_instant(s->last_ok_boot > now ? 0 : s->last_ok_boot, now, now_real),
                         "endpoints", endpoints_json(s, now, now_real), "certificate",
                         certificate_json(&s->tls), "classes", classes_json(s));
}

/* --- The part ------------------------------------------------------------------------------------------ */

static void sample_uplink(void *self, struct bus_sink *s) {
        struct uplink_part_state *p = self;
        const struct bus *b = p->bus;
        struct uplink_stats u;

        uplink_refresh(p->uplink);
        uplink_get_stats(p->uplink, &u);
        look_at_spare(p);
        if (aside_is_there(&p->aside) && aside_look(&p->aside, &u))
                uplink_set_limit(p->uplink, p->limit);
        judge_delivery(b, &u, &s->sink);
        judge_disk(p, &u, &s->sink);
        judge_certificate(b, &u, &s->sink);
        report_damage(p, &u);
        for (enum uplink_class c = 0; c < _UPLINK_CLASS_MAX; c++) {
                put_class(&u.classes[c], uplink_class_name(c), &s->sink);
                put_lag(&u.classes[c], uplink_class_name(c), host_now_real(b->host), &s->sink);
        }
        put_uint(&s->sink, METRIC_UPLINK_UNBUILT, b->telemetry.lost, NULL, NULL, NULL);
}

static void hear_uplink(void *self, const struct bus_news *n) {
        const struct uplink_part_state *p = self;

        if (n->topic == BUS_DECIDED && p->uplink)
                uplink_release(p->uplink);
        if (n->topic == BUS_TOKEN && p->uplink)
                uplink_try_now(p->uplink);
        if (n->topic == BUS_TOKEN && p->spare)
                uplink_try_now(p->spare);
        if (n->topic == BUS_DECIDED && p->spare)
                uplink_release(p->spare);
        if (n->topic == BUS_DURABLE && n->durable.class == UPLINK_EVENTS && p->spare)
                uplink_gaps_durable(p->spare, n->durable.seq);
        if (n->topic == BUS_DURABLE && n->durable.class == UPLINK_EVENTS && p->aside.uplink)
                uplink_gaps_durable(p->aside.uplink, n->durable.seq);
}

static int status_uplink(void *self, json_t *status) {
        const struct uplink_part_state *p = self;
        const struct bus *b = p->bus;
        struct uplink_stats u;
        json_t *v;

        uplink_get_stats(p->uplink, &u);
        v = uplink_to_json(&u, b->settings.endpoint, host_now(b->host), host_now_real(b->host));
        if (v && json_object_set_new(v, "aside", aside_to_json(&p->aside)) < 0) {
                json_decref(v);
                return -ENOMEM;
        }
        return json_object_set_new(status, "uplink", v) < 0 ? -ENOMEM : 0;
}

static void stop_uplink(void *self) {
        struct uplink_part_state *p = self;

        aside_stop(&p->aside);
        p->spare = uplink_free(p->spare);
        p->uplink = uplink_free(p->uplink);
}

const struct part uplink_part = {
        .name = "uplink",
        .size = sizeof(struct uplink_part_state),
        .start = start_uplink,
        .sample = sample_uplink,
        .hear = hear_uplink,
        .status = status_uplink,
        .stop = stop_uplink,
};
