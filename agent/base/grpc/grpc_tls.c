/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS between the socket and HTTP/2. OpenSSL reads and writes memory only: so one flight of a handshake is
 * one write, and no write of OpenSSL's own meets a closed socket (SIGPIPE).
 */
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "grpc_state.h"

#define RECORD (16 * 1024)

static const uint8_t alpn[] = { 2, 'h', '2' };

/* --- The context ------------------------------------------------------------------------------------ */

static int use_files(SSL_CTX *x, const struct tls_files *f, EVP_PKEY *key) {
        bool bad;

        bad = f->path[TLS_CA][0] ? SSL_CTX_load_verify_locations(x, f->path[TLS_CA], NULL) != 1
                                 : SSL_CTX_set_default_verify_paths(x) != 1;
        if (!bad && f->path[TLS_CERT][0])
                bad = SSL_CTX_use_certificate_chain_file(x, f->path[TLS_CERT]) != 1 ||
                      SSL_CTX_use_PrivateKey(x, key) != 1;
        return bad ? -EIO : 0;
}

static SSL_CTX *context_new(const struct tls_files *f, EVP_PKEY *key) {
        SSL_CTX *x = SSL_CTX_new(TLS_client_method());
        int r = x ? 0 : -ENOMEM;

        if (r == 0) {
                SSL_CTX_set_verify(x, SSL_VERIFY_PEER, NULL);
                /* a resumed session would go on with the certificate of before */
                (void) SSL_CTX_set_session_cache_mode(x, SSL_SESS_CACHE_OFF);
                (void) SSL_CTX_set_mode(x, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                                   SSL_MODE_RELEASE_BUFFERS);
                if (SSL_CTX_set_min_proto_version(x, TLS1_2_VERSION) != 1 ||
                    SSL_CTX_set_alpn_protos(x, alpn, sizeof(alpn)) != 0)
                        r = -EIO;
        }
        if (r == 0)
                r = use_files(x, f, key);
        ERR_clear_error();
        if (r == 0)
                return x;
        SSL_CTX_free(x);
        return NULL;
}

/* Whom the server has to be. */
static int expect(SSL *s, const char *host) {
        struct in6_addr any;

        if (inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1)
                return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s), host) == 1 ? 0 : -EIO;
        SSL_set_hostflags(s, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        return SSL_set1_host(s, host) == 1 && SSL_set_tlsext_host_name(s, host) == 1 ? 0 : -EIO;
}

void grpc_tls_prepare(struct grpc *g) {
        if (!g->context)
                g->context = context_new(&g->tls, g->key);
}

int grpc_tls_new(struct grpc_connection *n) {
        struct grpc *g = n->channel;
        BIO *in, *out;

        grpc_tls_prepare(g);
        n->ssl = g->context ? SSL_new(g->context) : NULL;
        if (!n->ssl)
                return -EIO;
        in = BIO_new(BIO_s_mem());
        out = BIO_new(BIO_s_mem());
        if (!in || !out) {
                (void) BIO_free(in);
                (void) BIO_free(out);
                return -ENOMEM;
        }
        SSL_set_bio(n->ssl, in, out);
        SSL_set_connect_state(n->ssl);
        return expect(n->ssl, g->host);
}

/* --- Failures --------------------------------------------------------------------------------------- */

static void fail(struct grpc_connection *n, int code) {
        unsigned long e = ERR_peek_error();
        long verified = SSL_get_verify_result(n->ssl);

        n->alerted = e != 0 && ERR_GET_LIB(e) == ERR_LIB_SSL && ERR_GET_REASON(e) >= SSL_AD_REASON_OFFSET;
        if (code == SSL_ERROR_ZERO_RETURN)
                grpc_connection_fail(n, "the server closed the connection");
        else if (n->alerted)
                grpc_connection_fail(n, "the server refuses TLS with this host: %s", ERR_reason_error_string(e));
        else if (n->phase == PHASE_HANDSHAKE && verified != X509_V_OK)
                grpc_connection_fail(n, "the server's certificate is not believed: %s",
                                     X509_verify_cert_error_string(verified));
        else
                grpc_connection_fail(n, "TLS failed: %s",
                                     e && ERR_reason_error_string(e) ? ERR_reason_error_string(e) : "no reason given");
        ERR_clear_error();
}

static bool goes_on(int code) {
        return code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE;
}

/* --- Bytes ------------------------------------------------------------------------------------------ */

static void shake_hands(struct grpc_connection *n) {
        const uint8_t *chosen;
        unsigned len;
        int k = SSL_do_handshake(n->ssl), code;

        if (k != 1) {
                code = SSL_get_error(n->ssl, k);
                if (!goes_on(code))
                        fail(n, code);
                return;
        }
        SSL_get0_alpn_selected(n->ssl, &chosen, &len);
        if (len != 2 || memcmp(chosen, "h2", 2) != 0)
                return grpc_connection_fail(n, "the server does not speak HTTP/2 over TLS");
        n->channel->slow = 0;
        grpc_connection_open(n);
}

void grpc_tls_take(struct grpc_connection *n, const uint8_t *data, size_t len) {
        uint8_t buf[RECORD];
        int k;

        if (BIO_write(SSL_get_rbio(n->ssl), data, (int) len) != (int) len)
                return grpc_connection_fail(n, "out of memory");
        if (n->phase == PHASE_HANDSHAKE)
                shake_hands(n);
        while (n->phase == PHASE_OPEN && !n->failed) {
                k = SSL_read(n->ssl, buf, sizeof(buf));
                if (k <= 0) {
                        int code = SSL_get_error(n->ssl, k);

                        if (!goes_on(code))
                                fail(n, code);
                        return;
                }
                grpc_streams_take(n, buf, (size_t) k);
        }
}

static int encrypt(struct grpc_connection *n) {
        struct bytes plain = { 0 };
        int r = grpc_streams_fill(n, &plain);

        for (size_t at = 0; r > 0 && at < plain.len;) {
                int k = SSL_write(n->ssl, plain.data + at, (int) (plain.len - at));

                if (k <= 0)
                        r = -EIO;
                else
                        at += (size_t) k;
        }
        free(plain.data);
        ERR_clear_error();
        return r;
}

int grpc_tls_fill(struct grpc_connection *n, struct bytes *out) {
        size_t before = out->len;
        uint8_t buf[RECORD];
        int r = 0, k;

        if (n->phase == PHASE_HANDSHAKE && !n->failed)
                shake_hands(n);
        if (n->phase == PHASE_OPEN && !n->failed)
                r = encrypt(n);
        if (r < 0)
                return r;
        while ((k = BIO_read(SSL_get_wbio(n->ssl), buf, sizeof(buf))) > 0)
                if (grpc_bytes_add(out, buf, (size_t) k) < 0)
                        return -ENOMEM;
        return out->len > before;
}
