/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The certificate that a TLS server of ours shows, its key, and the authority whose clients it believes:
 * three PEM files that may be replaced while the server runs, and one of revocation lists besides. New
 * connections are made with the newest files that were good; while new ones are bad (only half replaced,
 * say) the old ones stay in force. A revocation list that is overdue stays in force, too, with a warning:
 * who forgets to renew it shuts nobody out. Small local files are read in the caller.
 */
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base.h"
#include "tls_files.h"

struct server_certificate;
/* paths, in the order of tls_file, are copied; all are needed, but that of Crl= may be "". Nothing is read
 * yet. -ENAMETOOLONG, -ENOMEM. */
int server_certificate_new(const char *const paths[_TLS_FILE_MAX], struct server_certificate **ret);
struct server_certificate *server_certificate_free(struct server_certificate *s);
DEFINE_CLEANUP(struct server_certificate *, server_certificate_free)

/* Reads the files again if one of them changed since the last look. Returns whether it did. */
bool server_certificate_look(struct server_certificate *s);

struct server_certificate_state {
        bool usable; /* there are credentials to make connections with */
        /* file and reason why the present files cannot be used; empty: they are in force */
        char error[TLS_FILES_WHY_MAX];
        char warning[TLS_FILES_WHY_MAX]; /* everybody can read the key; a list is overdue; else empty */
        unsigned changes; /* how often other files came into force */
        usec_t not_before, not_after; /* real clock, of the certificate in force */
};
const struct server_certificate_state *server_certificate_state(const struct server_certificate *s);
/* Whose clients are believed now, and what is revoked; NULL: not usable. Borrowed until the next look. */
gnutls_x509_trust_list_t server_certificate_trust(const struct server_certificate *s);
const char *server_certificate_path(const struct server_certificate *s, enum tls_file which);

/*
 * One connection, before its handshake: it is made with the credentials in force, and the client is asked
 * for its certificate. What is returned belongs to the session and is given back when that has ended, before
 * server_certificate_free(). NULL: there are none; the connection must not be made.
 */
struct server_credentials;
struct server_credentials *server_certificate_attach(struct server_certificate *s, gnutls_session_t session);
struct server_credentials *server_credentials_detach(struct server_credentials *c);
/*
 * For MHD_OPTION_HTTPS_CERT_CALLBACK: libmicrohttpd has no certificate of its own then, and the handshake of
 * a connection that could not be attached ends.
 */
int server_certificate_none(gnutls_session_t session, const gnutls_datum_t *authorities, int n,
                            const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **ret,
                            unsigned *ret_n, gnutls_privkey_t *ret_key);
