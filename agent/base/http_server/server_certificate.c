/* SPDX-License-Identifier: Apache-2.0 */
#include "server_certificate.h"

#include <time.h>

#include "texts.h"

struct server_credentials {
        gnutls_certificate_credentials_t credentials;
        unsigned users; /* connections, and one while it is in force */
        struct server_credentials *next;
};

struct server_certificate {
        struct tls_files files;
        struct server_certificate_state state;
        struct server_credentials *current; /* the first of all */
        struct server_credentials *all;
        gnutls_x509_trust_list_t trust;
};

static void credentials_freep(gnutls_certificate_credentials_t *c) {
        if (*c)
                gnutls_certificate_free_credentials(*c);
}

/* --- Credentials --------------------------------------------------------------------------------------- */

static void trust_freep(gnutls_x509_trust_list_t *t) {
        if (*t)
                gnutls_x509_trust_list_deinit(*t, 1);
}

static int refuse_file(struct server_certificate *s, enum tls_file which, const char *what) {
        return text_fail(s->state.error, sizeof(s->state.error), -EBADMSG, "%s=%s: %s",
                         tls_server_names.key[which], s->files.path[which], what);
}

static int make_credentials(struct server_certificate *s, const struct tls_texts *t,
                            gnutls_certificate_credentials_t *ret) {
        _cleanup_(credentials_freep) gnutls_certificate_credentials_t c = NULL;
        int r;

        if (gnutls_certificate_allocate_credentials(&c) < 0)
                return refuse_file(s, TLS_CERT, strerror(ENOMEM));
        r = gnutls_certificate_set_x509_key_mem(c, &t->of[TLS_CERT], &t->of[TLS_KEY], GNUTLS_X509_FMT_PEM);
        if (r < 0)
                return refuse_file(s, TLS_CERT, gnutls_strerror(r));
        r = gnutls_certificate_set_x509_trust_mem(c, &t->of[TLS_CA], GNUTLS_X509_FMT_PEM);
        if (r <= 0)
                return refuse_file(s, TLS_CA, "no CA file: it holds no certificate in PEM form");
        *ret = TAKE_PTR(c);
        return 0;
}

/* Takes out what no connection uses any more. */
static void sweep(struct server_certificate *s) {
        struct server_credentials **at = &s->all, *c;

        while ((c = *at))
                if (c->users > 0)
                        at = &c->next;
                else {
                        *at = c->next;
                        gnutls_certificate_free_credentials(c->credentials);
                        free(c);
                }
}

static int put_in_force(struct server_certificate *s, gnutls_certificate_credentials_t credentials) {
        struct server_credentials *c = malloc(sizeof(*c));

        if (!c)
                return refuse_file(s, TLS_CERT, strerror(ENOMEM));
        *c = (struct server_credentials){ .credentials = credentials, .users = 1, .next = s->all };
        s->all = c;
        if (s->current)
                s->current->users--;
        s->current = c;
        return 0;
}

/* --- Whom it believes ---------------------------------------------------------------------------------- */

static void warn_of_overdue(struct server_certificate *s, gnutls_x509_crl_t list) {
        time_t next = gnutls_x509_crl_get_next_update(list);

        if (next > 0 && next < time(NULL))
                (void) snprintf(s->state.warning, sizeof(s->state.warning),
                                "Crl=%s: the next list was due already; this one stays in force",
                                s->files.path[TLS_CRL]);
}

/* GnuTLS counts a list that is overdue as one that is no list. */
static bool is_signed_by(gnutls_x509_crl_t list, const gnutls_x509_crt_t *authorities, unsigned n) {
        const unsigned of_time = GNUTLS_CERT_REVOCATION_DATA_SUPERSEDED |
                                 GNUTLS_CERT_REVOCATION_DATA_ISSUED_IN_FUTURE;
        unsigned status = 0;

        return gnutls_x509_crl_verify(list, authorities, n, 0, &status) >= 0 &&
               (status == 0 || ((status & of_time) && !(status & ~(of_time | GNUTLS_CERT_INVALID))));
}

/* Every list must be signed by one of the authorities: it would not count, and nobody would know. */
static int add_lists(struct server_certificate *s, const struct tls_texts *t,
                     gnutls_x509_trust_list_t trust) {
        gnutls_x509_crt_t *authorities = NULL;
        gnutls_x509_crl_t *lists = NULL;
        unsigned n = 0, m = 0;
        int result = 0;

        if (gnutls_x509_crl_list_import2(&lists, &n, &t->of[TLS_CRL], GNUTLS_X509_FMT_PEM, 0) < 0)
                return refuse_file(s, TLS_CRL, "holds no revocation list in PEM form");
        if (gnutls_x509_crt_list_import2(&authorities, &m, &t->of[TLS_CA], GNUTLS_X509_FMT_PEM, 0) < 0)
                result = refuse_file(s, TLS_CA, "no CA file: it holds no certificate in PEM form");
        for (unsigned i = 0; i < n; i++) {
                warn_of_overdue(s, lists[i]);
                if (result == 0 && !is_signed_by(lists[i], authorities, m))
                        result = refuse_file(s, TLS_CRL, "a list in it is of no authority of ClientCa=");
                if (result < 0 || gnutls_x509_trust_list_add_crls(trust, &lists[i], 1, 0, 0) <= 0)
                        gnutls_x509_crl_deinit(lists[i]);
        }
        for (unsigned i = 0; i < m; i++)
                gnutls_x509_crt_deinit(authorities[i]);
        gnutls_free(lists);
        gnutls_free(authorities);
        return result;
}

static int make_trust(struct server_certificate *s, const struct tls_texts *t,
                      gnutls_x509_trust_list_t *ret) {
        _cleanup_(trust_freep) gnutls_x509_trust_list_t trust = NULL;
        int r;

        if (gnutls_x509_trust_list_init(&trust, 0) < 0)
                return refuse_file(s, TLS_CA, strerror(ENOMEM));
        r = gnutls_x509_trust_list_add_trust_mem(trust, &t->of[TLS_CA], NULL, GNUTLS_X509_FMT_PEM, 0, 0);
        if (r <= 0)
                return refuse_file(s, TLS_CA, "no CA file: it holds no certificate in PEM form");
        r = t->of[TLS_CRL].data ? add_lists(s, t, trust) : 0;
        if (r < 0)
                return r;
        *ret = TAKE_PTR(trust);
        return 0;
}

gnutls_x509_trust_list_t server_certificate_trust(const struct server_certificate *s) {
        return s->trust;
}

/* --- All of it ----------------------------------------------------------------------------------------- */

static int use(struct server_certificate *s, const struct tls_texts *t) {
        _cleanup_(credentials_freep) gnutls_certificate_credentials_t c = NULL;
        _cleanup_(trust_freep) gnutls_x509_trust_list_t trust = NULL;
        gnutls_x509_trust_list_t old;
        int r;

        r = make_trust(s, t, &trust);
        if (r == 0)
                r = make_credentials(s, t, &c);
        if (r == 0)
                r = put_in_force(s, c);
        if (r < 0)
                return r;
        c = NULL;
        old = s->trust;
        s->trust = TAKE_PTR(trust);
        trust = old;
        s->state.changes++;
        s->state.usable = true;
        s->state.not_before = s->files.not_before;
        s->state.not_after = s->files.not_after;
        return 0;
}

bool server_certificate_look(struct server_certificate *s) {
        _cleanup_tls_texts_ struct tls_texts t = { 0 };

        sweep(s);
        if (!tls_files_look_texts(&s->files, &t))
                return false;
        s->files.looked = !s->files.shortage; /* else the next look reads them, changed or not */
        _Static_assert(sizeof(s->state.error) == sizeof(s->files.error), "one is copied into the other");
        memcpy(s->state.error, s->files.error, sizeof(s->state.error));
        memcpy(s->state.warning, s->files.warning, sizeof(s->state.warning));
        if (!s->state.error[0])
                (void) use(s, &t); /* what is wrong stands in the state */
        return true;
}

const struct server_certificate_state *server_certificate_state(const struct server_certificate *s) {
        return &s->state;
}

const char *server_certificate_path(const struct server_certificate *s, enum tls_file which) {
        return s->files.path[which];
}

/* --- Connections --------------------------------------------------------------------------------------- */

struct server_credentials *server_certificate_attach(struct server_certificate *s,
                                                     gnutls_session_t session) {
        struct server_credentials *c = s->current;

        if (!c || gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, c->credentials) < 0)
                return NULL;
        /* Asked, not required: the server tells a client without one why it is refused. */
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
        c->users++;
        return c;
}

/* Not freed here: the session may look at it once more while it ends. */
struct server_credentials *server_credentials_detach(struct server_credentials *c) {
        if (c)
                c->users--;
        return NULL;
}

int server_certificate_none(gnutls_session_t session, const gnutls_datum_t *authorities, int n,
                            const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **ret,
                            unsigned *ret_n, gnutls_privkey_t *ret_key) {
        (void) session, (void) authorities, (void) n, (void) algorithms, (void) n_algorithms;
        (void) ret, (void) ret_n, (void) ret_key;
        return -1;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int server_certificate_new(const char *const paths[_TLS_FILE_MAX], struct server_certificate **ret) {
        _cleanup_(server_certificate_freep) struct server_certificate *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        s->files.names = &tls_server_names;
        for (size_t i = 0; i < _TLS_FILE_MAX; i++) {
                if (strlen(paths[i]) >= TLS_PATH_MAX)
                        return -ENAMETOOLONG;
                (void) snprintf(s->files.path[i], TLS_PATH_MAX, "%s", paths[i]);
        }
        *ret = TAKE_PTR(s);
        return 0;
}

struct server_certificate *server_certificate_free(struct server_certificate *s) {
        if (!s)
                return NULL;
        if (s->current)
                s->current->users--;
        sweep(s);
        trust_freep(&s->trust);
        free(s);
        return NULL;
}
