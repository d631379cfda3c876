/* SPDX-License-Identifier: Apache-2.0 */
#include <gnutls/x509.h>

#include "tls_peer.h"

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

bool tls_name_is_plain(const char *name, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (name[i] <= ' ' || name[i] > '~')
                        return false;
        return size > 0;
}

/* The i-th URI of a certificate: 1 and the name, 0 when the i-th name is no URI that can be listed, or
 * GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE after the last. */
static int read_name(gnutls_x509_crt_t crt, unsigned i, char name[static TLS_NAME_MAX]) {
        size_t size = TLS_NAME_MAX - 1;
        int type = gnutls_x509_crt_get_subject_alt_name(crt, i, name, &size, NULL);

        if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
                return type;
        if (type != GNUTLS_SAN_URI || size >= TLS_NAME_MAX) /* another kind, or too long for any list */
                return 0;
        name[size] = '\0';
        return tls_name_is_plain(name, size);
}

static int find_name(gnutls_x509_crt_t crt, const char *const lists[], size_t n, size_t *ret_which,
                     char ret_name[static TLS_NAME_MAX], char why[static TLS_WHY_MAX]) {
        char first[TLS_NAME_MAX] = "", name[TLS_NAME_MAX];
        size_t which = n;
        int r;

        for (unsigned i = 0; (r = read_name(crt, i, name)) >= 0; i++) {
                if (r == 0)
                        continue;
                for (size_t k = 0; k < which; k++)
                        if (tls_allows(lists[k], name)) {
                                which = k;
                                memcpy(ret_name, name, sizeof(name));
                        }
                if (!first[0])
                        memcpy(first, name, sizeof(first));
        }
        if (which < n) {
                *ret_which = which;
                return 0;
        }
        if (first[0])
                (void) snprintf(why, TLS_WHY_MAX, "'%.120s' is not among those who may call", first);
        else
                (void) snprintf(why, TLS_WHY_MAX, "the certificate has no URI");
        return -EACCES;
}

static const char *what_is_wrong(int r, unsigned status) {
        if (r < 0)
                return "not one that can be read";
        if (status & GNUTLS_CERT_EXPIRED)
                return "expired";
        if (status & GNUTLS_CERT_NOT_ACTIVATED)
                return "not valid yet";
        if (status & GNUTLS_CERT_PURPOSE_MISMATCH)
                return "not for clients (its extended key usage lacks clientAuth)";
        return "not of a CA that is trusted here";
}

int tls_check_peer(gnutls_session_t session, const char *const lists[], size_t n, size_t *ret_which,
                   char ret_name[static TLS_NAME_MAX], char why[static TLS_WHY_MAX]) {
        gnutls_typed_vdata_st purpose = { .type = GNUTLS_DT_KEY_PURPOSE_OID,
                                          .data = (unsigned char *) (uintptr_t) GNUTLS_KP_TLS_WWW_CLIENT };
        const gnutls_datum_t *chain;
        gnutls_x509_crt_t crt;
        unsigned status = 0, len = 0;
        int r;

        chain = gnutls_certificate_get_peers(session, &len);
        if (!chain || len == 0) {
                (void) snprintf(why, TLS_WHY_MAX, "no client certificate was given");
                return -EACCES;
        }
        r = gnutls_certificate_verify_peers(session, &purpose, 1, &status);
        if (r < 0 || status != 0) {
                (void) snprintf(why, TLS_WHY_MAX, "the client certificate is %s", what_is_wrong(r, status));
                return -EACCES;
        }
        if (gnutls_x509_crt_init(&crt) < 0) {
                (void) snprintf(why, TLS_WHY_MAX, "out of memory");
                return -EACCES;
        }
        r = gnutls_x509_crt_import(crt, &chain[0], GNUTLS_X509_FMT_DER);
        if (r < 0)
                (void) snprintf(why, TLS_WHY_MAX, "the client certificate is %s", what_is_wrong(r, 0));
        r = r < 0 ? -EACCES : find_name(crt, lists, n, ret_which, ret_name, why);
        gnutls_x509_crt_deinit(crt);
        return r;
}
