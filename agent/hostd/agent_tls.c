/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The query API over TCP: whether it is configured, its certificate files, and when it listens. Nothing of it
 * can make a host unfit for runs: what is wrong here is a WARN.
 */
#include "check_words.h"
#include "agent.h"
#include "uplink_part.h"
#include "log.h"
#include "tcp_address.h"

struct agent_tls {
        struct settings_api settings; /* what it was started with; the lists are borrowed from here */
        struct server_certificate *certificate; /* NULL: not all files are named */
        struct http_server *api; /* NULL: it does not listen (yet) */
        char where[TCP_ADDRESS_TEXT_MAX], why_not[200];
};

static bool configured(const struct settings_api *s) {
        return s->certificate[0] || s->key[0] || s->client_ca[0];
}

/* --- Listening ----------------------------------------------------------------------------------------- */

/* "[::]" is every address; where the kernel has no IPv6, that is 0.0.0.0. */
static int open_port(struct agent_tls *t, int *ret_fd) {
        struct tcp_address a;
        char other[sizeof(t->settings.listen) + 16];
        int r;

        r = tcp_address_parse(t->settings.listen, &a);
        if (r >= 0)
                r = tcp_address_listen(&a, ret_fd, t->where);
        if (r != -EAFNOSUPPORT || !startswith(t->settings.listen, "[::]:"))
                return r;
        (void) snprintf(other, sizeof(other), "0.0.0.0:%s", t->settings.listen + strlen("[::]:"));
        r = tcp_address_parse(other, &a);
        return r < 0 ? r : tcp_address_listen(&a, ret_fd, t->where);
}

static int listen_now(struct bus *b, struct agent_tls *t) {
        int fd, r;

        r = open_port(t, &fd);
        if (r < 0) {
                (void) snprintf(t->why_not, sizeof(t->why_not), "%s: %s", t->settings.listen, strerror(-r));
                return r;
        }
        r = agent_api_serve(b, fd, t->certificate, &t->api);
        if (r < 0)
                (void) snprintf(t->why_not, sizeof(t->why_not), "TLS cannot be started: %s", strerror(-r));
        else
                http_server_allow(t->api, t->settings.readers, t->settings.actors);
        return r;
}

/* As soon as there is a certificate; a port that is taken may be free later. */
static void try_to_listen(struct bus *b, struct agent_tls *t) {
        bool said = t->why_not[0];

        if (t->api || !t->certificate || !server_certificate_state(t->certificate)->usable)
                return;
        if (listen_now(b, t) < 0) {
                if (!said)
                        log_warning("the API does not listen on TCP: %s; tried again", t->why_not);
                return;
        }
        t->why_not[0] = '\0';
        log_info("the API answers on %s too, to certificates of %s", t->where,
                 server_certificate_path(t->certificate, TLS_CA));
}

void agent_tls_look(struct bus *b) {
        const struct server_certificate_state *s;
        struct agent_tls *t = agent_of(b)->tls;

        if (!t)
                return;
        if (t->certificate && server_certificate_look(t->certificate)) {
                s = server_certificate_state(t->certificate);
                if (s->error[0])
                        log_warning("[Api] %s; %s", s->error,
                                    s->usable ? "the previous files stay in force" : "tried again when it changes");
                else if (t->api)
                        log_info("[Api] the new certificate is in force: %s",
                                 server_certificate_path(t->certificate, TLS_CERT));
        }
        try_to_listen(b, t);
}

/* --- What is to be said about it ----------------------------------------------------------------------- */

static void judge_listening(struct bus *b, const struct agent_tls *t) {
        struct finding f;

        finding_init(&f, "api.listen", "");
        finding_set(f.source, "[Api] of hostd.conf");
        finding_set(f.wanted, "%s", t->settings.listen);
        finding_set(f.found, "%s", t->api ? t->where : "nothing");
        f.verdict = VERDICT_OK;
        if (!t->api)
                check_say(&f, WORDS_API_DEAF,
                          t->why_not[0] ? t->why_not : "no usable certificate: api.certificate");
        else if (!t->settings.readers[0] && !t->settings.actors[0])
                check_say(&f, WORDS_API_NOBODY);
        bus_take_finding(b, SOURCE_API, b->round, &f);
}

static void judge_files(const struct agent_tls *t, usec_t now, struct finding *f) {
        const struct server_certificate_state *s = server_certificate_state(t->certificate);
        const struct certificate_end end = {
                .not_before = s->not_before,
                .not_after = s->not_after,
                .path = server_certificate_path(t->certificate, TLS_CERT),
                .what_then = "clients refuse the API of this host",
                .gravest = VERDICT_WARN,
        };

        f->verdict = VERDICT_WARN;
        finding_set(f->found, "not usable");
        if (s->usable)
                certificate_end_judge(&end, now, f);
        if (s->error[0])
                check_say(f, WORDS_API_FILES, s->error, s->usable ? "the previous files stay in force" : "");
        else if (f->verdict == VERDICT_OK && s->warning[0])
                check_say(f, WORDS_KEY_READABLE, s->warning,
                          server_certificate_path(t->certificate, TLS_KEY));
}

static void judge_certificate(struct bus *b, const struct agent_tls *t) {
        struct finding f;

        finding_init(&f, "api.certificate", "");
        finding_set(f.source, "[Api] of hostd.conf");
        if (t->certificate)
                judge_files(t, host_now_real(b->host), &f);
        else {
                finding_set(f.found, "not usable");
                check_say(&f, WORDS_API_PARTS);
        }
        bus_take_finding(b, SOURCE_API, b->round, &f);
}

void agent_tls_judge(struct bus *b) {
        if (!agent_of(b)->tls)
                return;
        judge_certificate(b, agent_of(b)->tls);
        judge_listening(b, agent_of(b)->tls);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

static int read_files(struct agent_tls *t) {
        char files[_TLS_FILE_MAX][TLS_PATH_MAX];
        const char *const paths[_TLS_FILE_MAX] = { files[0], files[1], files[2] };
        const struct settings_api *s = &t->settings;

        if (!s->certificate[0] || !s->key[0] || !s->client_ca[0])
                return 0;
        if (tls_credential_path("Certificate", s->certificate, files[TLS_CERT]) < 0 ||
            tls_credential_path("Key", s->key, files[TLS_KEY]) < 0 ||
            tls_credential_path("ClientCa", s->client_ca, files[TLS_CA]) < 0)
                return -ENAMETOOLONG;
        return server_certificate_new(paths, &t->certificate);
}

int agent_tls_start(struct bus *b) {
        int r;

        if (!configured(&b->settings.api))
                return 0;
        agent_of(b)->tls = calloc(1, sizeof(*agent_of(b)->tls));
        if (!agent_of(b)->tls)
                return -ENOMEM;
        agent_of(b)->tls->settings = b->settings.api;
        r = read_files(agent_of(b)->tls);
        if (r < 0)
                return r;
        agent_tls_look(b);
        return 0;
}

static bool same_files(const struct settings_api *a, const struct settings_api *b) {
        return streq(a->listen, b->listen) && streq(a->certificate, b->certificate) && streq(a->key, b->key) &&
               streq(a->client_ca, b->client_ca);
}

void agent_tls_reload(struct bus *b) {
        int r;

        if (agent_of(b)->tls && same_files(&agent_of(b)->tls->settings, &b->settings.api)) {
                agent_of(b)->tls->settings = b->settings.api;
                if (agent_of(b)->tls->api)
                        http_server_allow(agent_of(b)->tls->api, agent_of(b)->tls->settings.readers, agent_of(b)->tls->settings.actors);
                return;
        }
        agent_tls_stop(b);
        r = agent_tls_start(b);
        if (r < 0) {
                (void) log_warning_errno(r, "the API does not listen on TCP: %m");
                agent_tls_stop(b);
        }
}

void agent_tls_stop(struct bus *b) {
        if (!agent_of(b)->tls)
                return;
        agent_of(b)->tls->api = http_server_free(agent_of(b)->tls->api);
        agent_of(b)->tls->certificate = server_certificate_free(agent_of(b)->tls->certificate);
        free(agent_of(b)->tls);
        agent_of(b)->tls = NULL;
}
