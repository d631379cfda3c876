/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <gnutls/x509.h>
#include <sys/stat.h>

#include "file_stamp.h"
#include "io.h"
#include "server_certificate.h"

#define FILE_MAX (1024 * 1024) /* a bundle of all public authorities has 220 KiB */

static const char *const keys[_SERVER_FILE_MAX] = { "Certificate", "Key", "ClientCa" };

struct server_credentials {
        gnutls_certificate_credentials_t credentials;
        unsigned users; /* connections, and one while it is in force */
        struct server_credentials *next;
};

struct server_certificate {
        char *paths[_SERVER_FILE_MAX];
        struct file_stamp stamps[_SERVER_FILE_MAX];
        bool looked;
        struct server_certificate_state state;
        struct server_credentials *current; /* the first of all */
        struct server_credentials *all;
};

static void credentials_freep(gnutls_certificate_credentials_t *c) {
        if (*c)
                gnutls_certificate_free_credentials(*c);
}

/* --- Files --------------------------------------------------------------------------------------------- */

static int complain(struct server_certificate *s, enum server_file which, const char *what) {
        (void) snprintf(s->state.error, sizeof(s->state.error), "%s=%s: %s", keys[which], s->paths[which],
                        what);
        return -EBADMSG;
}

struct texts {
        gnutls_datum_t of[_SERVER_FILE_MAX];
};

static void forget_texts(struct texts *t) {
        for (size_t i = 0; i < _SERVER_FILE_MAX; i++) {
                if (t->of[i].data)
                        explicit_bzero(t->of[i].data, t->of[i].size);
                free(t->of[i].data);
        }
}

static int read_file(struct server_certificate *s, enum server_file which, gnutls_datum_t *ret) {
        _cleanup_close_ int fd = open(s->paths[which], O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        _cleanup_free_ char *text = NULL;
        struct stat st;
        ssize_t n;

        if (fd < 0)
                return complain(s, which, strerror(errno));
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return complain(s, which, "not a regular file");
        if (st.st_size > FILE_MAX)
                return complain(s, which, "larger than 1 MiB: no certificate, no key");
        if (which == SERVER_KEY && (st.st_mode & S_IROTH))
                (void) snprintf(s->state.warning, sizeof(s->state.warning), "%s=%s can be read by everybody",
                                keys[which], s->paths[which]);
        text = malloc((size_t) st.st_size + 1);
        if (!text)
                return complain(s, which, strerror(ENOMEM));
        n = io_read_up_to(fd, text, (size_t) st.st_size);
        if (n < 0)
                return complain(s, which, strerror((int) -n));
        text[n] = '\0';
        *ret = (gnutls_datum_t) { (unsigned char *) TAKE_PTR(text), (unsigned) n };
        return 0;
}

/* --- Credentials --------------------------------------------------------------------------------------- */

/* By itself, so that what is wrong is said with its name. */
static int check_key(struct server_certificate *s, const gnutls_datum_t *text) {
        gnutls_x509_privkey_t key;
        int r;

        if (gnutls_x509_privkey_init(&key) < 0)
                return complain(s, SERVER_KEY, strerror(ENOMEM));
        r = gnutls_x509_privkey_import2(key, text, GNUTLS_X509_FMT_PEM, NULL, 0);
        gnutls_x509_privkey_deinit(key);
        if (r == GNUTLS_E_DECRYPTION_FAILED)
                return complain(s, SERVER_KEY, "has a passphrase, which nobody is there to type");
        return r < 0 ? complain(s, SERVER_KEY, "holds no private key in PEM form") : 0;
}

static int read_dates(struct server_certificate *s, const gnutls_datum_t *text, usec_t *ret_from,
                      usec_t *ret_until) {
        gnutls_x509_crt_t x;
        time_t from = 0, until = 0;
        int r;

        if (gnutls_x509_crt_init(&x) < 0)
                return complain(s, SERVER_CERTIFICATE, strerror(ENOMEM));
        r = gnutls_x509_crt_import(x, text, GNUTLS_X509_FMT_PEM);
        if (r >= 0) {
                from = gnutls_x509_crt_get_activation_time(x);
                until = gnutls_x509_crt_get_expiration_time(x);
        }
        gnutls_x509_crt_deinit(x);
        if (r < 0)
                return complain(s, SERVER_CERTIFICATE, "holds no certificate in PEM form");
        *ret_from = from > 0 ? (usec_t) from * USEC_PER_SEC : 0;
        *ret_until = until > 0 ? (usec_t) until * USEC_PER_SEC : 0;
        return 0;
}

static int complain_of_pair(struct server_certificate *s) {
        char what[300];

        (void) snprintf(what, sizeof(what), "is not the key of Certificate=%s",
                        s->paths[SERVER_CERTIFICATE]);
        return complain(s, SERVER_KEY, what);
}

static int join(struct server_certificate *s, const struct texts *t, gnutls_certificate_credentials_t *ret) {
        _cleanup_(credentials_freep) gnutls_certificate_credentials_t c = NULL;
        int r;

        if (gnutls_certificate_allocate_credentials(&c) < 0)
                return complain(s, SERVER_CERTIFICATE, strerror(ENOMEM));
        r = gnutls_certificate_set_x509_key_mem(c, &t->of[SERVER_CERTIFICATE], &t->of[SERVER_KEY],
                                                GNUTLS_X509_FMT_PEM);
        if (r == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
                return complain_of_pair(s);
        if (r < 0)
                return complain(s, SERVER_CERTIFICATE, gnutls_strerror(r));
        r = gnutls_certificate_set_x509_trust_mem(c, &t->of[SERVER_CLIENT_CA], GNUTLS_X509_FMT_PEM);
        if (r <= 0)
                return complain(s, SERVER_CLIENT_CA, "no CA file: it holds no certificate in PEM form");
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
                return complain(s, SERVER_CERTIFICATE, strerror(ENOMEM));
        *c = (struct server_credentials){ .credentials = credentials, .users = 1, .next = s->all };
        s->all = c;
        if (s->current)
                s->current->users--;
        s->current = c;
        return 0;
}

static int read_all(struct server_certificate *s) {
        _cleanup_(forget_texts) struct texts t = { 0 };
        _cleanup_(credentials_freep) gnutls_certificate_credentials_t c = NULL;
        usec_t from, until;
        int r = 0;

        s->state.error[0] = s->state.warning[0] = '\0';
        for (enum server_file i = 0; i < _SERVER_FILE_MAX && r == 0; i++)
                r = read_file(s, i, &t.of[i]);
        if (r == 0)
                r = read_dates(s, &t.of[SERVER_CERTIFICATE], &from, &until);
        if (r == 0)
                r = check_key(s, &t.of[SERVER_KEY]);
        if (r == 0)
                r = join(s, &t, &c);
        if (r == 0)
                r = put_in_force(s, c);
        if (r < 0)
                return r;
        c = NULL;
        s->state.usable = true;
        s->state.not_before = from;
        s->state.not_after = until;
        return 0;
}

bool server_certificate_look(struct server_certificate *s) {
        const char *const paths[_SERVER_FILE_MAX] = { s->paths[0], s->paths[1], s->paths[2] };

        sweep(s);
        if (!file_stamps_changed(paths, s->stamps, _SERVER_FILE_MAX) && s->looked)
                return false;
        s->looked = true;
        (void) read_all(s); /* what is wrong stands in the state */
        return true;
}

const struct server_certificate_state *server_certificate_state(const struct server_certificate *s) {
        return &s->state;
}

const char *server_certificate_path(const struct server_certificate *s, enum server_file which) {
        return s->paths[which];
}

/* --- Connections --------------------------------------------------------------------------------------- */

struct server_credentials *server_certificate_attach(struct server_certificate *s, gnutls_session_t session) {
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

struct server_certificate *server_certificate_new(const char *const paths[_SERVER_FILE_MAX]) {
        _cleanup_(server_certificate_freep) struct server_certificate *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        for (size_t i = 0; i < _SERVER_FILE_MAX; i++) {
                s->paths[i] = strdup(paths[i]);
                if (!s->paths[i])
                        return NULL;
        }
        return TAKE_PTR(s);
}

struct server_certificate *server_certificate_free(struct server_certificate *s) {
        if (!s)
                return NULL;
        if (s->current)
                s->current->users--;
        sweep(s);
        for (size_t i = 0; i < _SERVER_FILE_MAX; i++)
                free(s->paths[i]);
        free(s);
        return NULL;
}
