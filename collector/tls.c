/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <gnutls/x509.h>

#include "io.h"
#include "tls.h"

/* --- Files ----------------------------------------------------------------------------------- */

static int read_pem(const char *path, char **ret, char why[static TLS_WHY_MAX]) {
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *text = malloc(TLS_FILE_MAX + 1);
        ssize_t n;

        if (!text)
                return -ENOMEM;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        n = fd < 0 ? -errno : io_read_up_to(fd, text, TLS_FILE_MAX + 1);
        if (n > (ssize_t) TLS_FILE_MAX)
                n = -EFBIG;
        if (n < 0) {
                (void) snprintf(why, TLS_WHY_MAX, "%.120s: %s", path, strerror((int) -n));
                return (int) n;
        }
        text[n] = '\0';
        *ret = TAKE_PTR(text);
        return 0;
}

/* Says now what libmicrohttpd would only fail at. */
static int check_pair(const struct tls *t, const char *certificate, char why[static TLS_WHY_MAX]) {
        const gnutls_datum_t cert = { (unsigned char *) t->certificate, (unsigned) strlen(t->certificate) },
                             key = { (unsigned char *) t->key, (unsigned) strlen(t->key) },
                             ca = { (unsigned char *) t->client_ca, (unsigned) strlen(t->client_ca) };
        gnutls_certificate_credentials_t c;
        int r;

        if (gnutls_certificate_allocate_credentials(&c) < 0)
                return -ENOMEM;
        r = gnutls_certificate_set_x509_key_mem(c, &cert, &key, GNUTLS_X509_FMT_PEM);
        if (r < 0)
                (void) snprintf(why, TLS_WHY_MAX, "%.100s and its key: %s", certificate, gnutls_strerror(r));
        else {
                r = gnutls_certificate_set_x509_trust_mem(c, &ca, GNUTLS_X509_FMT_PEM);
                if (r <= 0)
                        (void) snprintf(why, TLS_WHY_MAX, "the client CA file: %s",
                                        r == 0 ? "no certificate in it" : gnutls_strerror(r));
                r = r == 0 ? -1 : r;
        }
        gnutls_certificate_free_credentials(c);
        return r < 0 ? -EINVAL : 0;
}

int tls_load(const char *certificate, const char *key, const char *client_ca, struct tls *ret,
             char why[static TLS_WHY_MAX]) {
        _cleanup_(tls_clear) struct tls t = { 0 };
        int r;

        if (!*certificate && !*key && !*client_ca) {
                *ret = t;
                return 0;
        }
        if (!*certificate || !*key || !*client_ca) {
                (void) snprintf(why, TLS_WHY_MAX,
                                "Certificate=, Key= and ClientCa= belong together: all of them, or none");
                return -EINVAL;
        }
        r = read_pem(certificate, &t.certificate, why);
        if (r == 0)
                r = read_pem(key, &t.key, why);
        if (r == 0)
                r = read_pem(client_ca, &t.client_ca, why);
        if (r == 0)
                r = check_pair(&t, certificate, why);
        if (r < 0)
                return r;
        *ret = t;
        t = (struct tls) { 0 };
        return 0;
}

void tls_clear(struct tls *t) {
        if (t->key)
                explicit_bzero(t->key, strlen(t->key));
        free(t->certificate);
        free(t->key);
        free(t->client_ca);
        *t = (struct tls) { 0 };
}

/* --- Peers ----------------------------------------------------------------------------------- */

bool tls_allows(const char *allow, const char *uri) {
        while (*allow) {
                size_t n = strcspn(allow, " ");

                if (n > 0 && allow[n - 1] == '*' && strncmp(allow, uri, n - 1) == 0)
                        return true;
                if (n > 0 && strlen(uri) == n && memcmp(allow, uri, n) == 0)
                        return true;
                allow += n + (allow[n] == ' ');
        }
        return false;
}

static int find_name(gnutls_x509_crt_t crt, const char *allow, char ret_name[static TLS_NAME_MAX],
                     char why[static TLS_WHY_MAX]) {
        char first[TLS_NAME_MAX] = "";

        for (unsigned i = 0;; i++) {
                char name[TLS_NAME_MAX];
                size_t size = sizeof(name) - 1;
                int type = gnutls_x509_crt_get_subject_alt_name(crt, i, name, &size, NULL);

                if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
                        break;
                if (type != GNUTLS_SAN_URI ||
                    size >= sizeof(name)) /* another kind, or too long for any list */
                        continue;
                name[size] = '\0';
                if (strlen(name) == size && tls_allows(allow, name)) {
                        memcpy(ret_name, name, size + 1);
                        return 0;
                }
                if (!first[0])
                        memcpy(first, name, size + 1);
        }
        (void) snprintf(why, TLS_WHY_MAX,
                        first[0] ? "'%.120s' is not among those who may call"
                                 : "the certificate has no URI%.0s",
                        first);
        return -EACCES;
}

int tls_check_peer(gnutls_session_t session, const char *allow, char ret_name[static TLS_NAME_MAX],
                   char why[static TLS_WHY_MAX]) {
        const gnutls_datum_t *list;
        gnutls_x509_crt_t crt;
        unsigned status, n = 0;
        int r;

        list = gnutls_certificate_get_peers(session, &n);
        if (!list || n == 0) {
                (void) snprintf(why, TLS_WHY_MAX, "no client certificate was given");
                return -EACCES;
        }
        r = gnutls_certificate_verify_peers2(session, &status);
        if (r < 0 || status != 0) {
                (void) snprintf(why, TLS_WHY_MAX, "the client certificate is %s",
                                r == 0 && status & GNUTLS_CERT_EXPIRED ? "expired"
                                                                       : "not of a CA that is trusted here");
                return -EACCES;
        }
        if (gnutls_x509_crt_init(&crt) < 0)
                return -ENOMEM;
        r = gnutls_x509_crt_import(crt, &list[0], GNUTLS_X509_FMT_DER) < 0
                    ? -EACCES
                    : find_name(crt, allow, ret_name, why);
        gnutls_x509_crt_deinit(crt);
        return r;
}
