/* SPDX-License-Identifier: Apache-2.0 */
#include "api_state.h"
#include "check_words.h"
#include "log.h"
#include "uplink_part.h"

struct api_tls {
        struct settings_api settings; /* what it was started with */
        struct tls_callers callers;
        struct server_certificate *certificate; /* NULL: not all files are named */
        struct api_port port;
};

static bool configured(const struct settings_api *s) {
        return s->certificate[0] || s->key[0] || s->client_ca[0];
}

/* --- Listening ----------------------------------------------------------------------------------------- */

/* As soon as there is a certificate; a port that is taken may be free later. */
static void try_to_listen(struct api_state *p, struct api_tls *t) {
        const struct api_security tls = { .certificate = t->certificate,
                                          .callers = &t->callers,
                                          .tls12 = t->settings.tls12 };

        if (!t->certificate || !server_certificate_state(t->certificate)->usable)
                return;
        if (api_port_open(p, &t->port, &tls))
                log_info("the API answers on %s too, to certificates of %s", t->port.where,
                         server_certificate_path(t->certificate, TLS_CA));
}

void api_tls_look(struct api_state *p) {
        const struct server_certificate_state *s;
        struct api_tls *t = p->tls;

        if (!t)
                return;
        (void) tls_callers_look(&t->callers);
        if (t->certificate && server_certificate_look(t->certificate)) {
                s = server_certificate_state(t->certificate);
                if (s->error[0])
                        log_warning("[Api] %s; %s", s->error,
                                    s->usable ? "the previous files stay in force"
                                              : "tried again when it changes");
                else if (t->port.server)
                        log_info("[Api] the new certificate is in force: %s",
                                 server_certificate_path(t->certificate, TLS_CERT));
        }
        try_to_listen(p, t);
}

/* --- What is to be said about it ----------------------------------------------------------------------- */

static void judge_listening(const struct api_tls *t, struct sink *s) {
        struct finding f;

        api_port_judge(&t->port, "", &f);
        if (t->port.server && name_list_is_empty(t->callers.allow) && name_list_is_empty(t->callers.act))
                check_say(&f, WORDS_API_NOBODY);
        s->finding(s, &f);
}

static void judge_files(const struct api_tls *t, usec_t now, struct finding *f) {
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

static void judge_certificate(const struct api_tls *t, usec_t now_real, struct sink *s) {
        struct finding f;

        finding_init(&f, "api.certificate", "");
        finding_set(f.source, "[Api] of hostd.conf");
        if (t->certificate)
                judge_files(t, now_real, &f);
        else {
                finding_set(f.found, "not usable");
                check_say(&f, WORDS_API_PARTS);
        }
        s->finding(s, &f);
}

void api_tls_report(const struct api_state *p, struct sink *s) {
        if (!p->tls)
                return;
        judge_certificate(p->tls, host_now_real(p->bus->host), s);
        judge_listening(p->tls, s);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

static int read_files(struct api_tls *t) {
        char files[_TLS_FILE_MAX][TLS_PATH_MAX] = { "" };
        const char *const paths[_TLS_FILE_MAX] = { files[0], files[1], files[2], files[3] };
        const struct settings_api *s = &t->settings;

        if (!s->certificate[0] || !s->key[0] || !s->client_ca[0])
                return 0;
        if (tls_credential_path("Certificate", s->certificate, files[TLS_CERT]) < 0 ||
            tls_credential_path("Key", s->key, files[TLS_KEY]) < 0 ||
            tls_credential_path("ClientCa", s->client_ca, files[TLS_CA]) < 0 ||
            (s->crl[0] && tls_credential_path("Crl", s->crl, files[TLS_CRL]) < 0))
                return -ENAMETOOLONG;
        return server_certificate_new(paths, &t->certificate);
}

static int set_lists(struct api_tls *t) {
        return tls_callers_set(&t->callers, t->settings.readers, t->settings.actors, t->settings.denied);
}

int api_tls_start(struct api_state *p) {
        int r;

        if (!configured(&p->bus->settings.api))
                return 0;
        p->tls = calloc(1, sizeof(*p->tls));
        if (!p->tls)
                return -ENOMEM;
        p->tls->settings = p->bus->settings.api;
        (void) snprintf(p->tls->port.listen, sizeof(p->tls->port.listen), "%s", p->tls->settings.listen);
        r = set_lists(p->tls);
        if (r >= 0)
                r = read_files(p->tls);
        if (r < 0)
                return r;
        api_tls_look(p);
        return 0;
}

static bool same_files(const struct settings_api *a, const struct settings_api *b) {
        return streq(a->listen, b->listen) && streq(a->certificate, b->certificate) &&
               streq(a->key, b->key) && streq(a->client_ca, b->client_ca) && streq(a->crl, b->crl) &&
               a->tls12 == b->tls12;
}

void api_tls_reload(struct api_state *p) {
        int r;

        if (p->tls && same_files(&p->tls->settings, &p->bus->settings.api)) {
                p->tls->settings = p->bus->settings.api;
                r = set_lists(p->tls);
                if (r < 0)
                        (void) log_warning_errno(r, "the lists of [Api] stay as they were: %m");
                (void) tls_callers_look(&p->tls->callers);
                return;
        }
        api_tls_stop(p);
        r = api_tls_start(p);
        if (r < 0) {
                (void) log_warning_errno(r, "the API does not listen on TCP: %m");
                api_tls_stop(p);
        }
}

void api_tls_stop(struct api_state *p) {
        if (!p->tls)
                return;
        api_port_close(&p->tls->port);
        p->tls->certificate = server_certificate_free(p->tls->certificate);
        tls_callers_clear(&p->tls->callers);
        free(p->tls);
        p->tls = NULL;
}
