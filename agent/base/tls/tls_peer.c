/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_peer.h"

#include <gnutls/crypto.h>

#include "log.h"
#include "texts.h"

#define CHAIN_MAX 16
#define DNS       "dns:"
#define BEARER    "Bearer "

/* --- What a certificate says --------------------------------------------------------------------------- */

/* The i-th name: 1; 0 when it is none that can be listed, or GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE after the
 * last. A URI that looks like a DNS name of ours, or the name of a token, is none. */
static int read_name(gnutls_x509_crt_t crt, unsigned i, char name[static TLS_NAME_MAX]) {
        char text[TLS_NAME_MAX];
        size_t size = sizeof(text) - 1;
        int type = gnutls_x509_crt_get_subject_alt_name(crt, i, text, &size, NULL);

        if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
                return type;
        if ((type != GNUTLS_SAN_URI && type != GNUTLS_SAN_DNSNAME) ||
            size >= TLS_NAME_MAX - strlen(DNS) || !tls_name_is_plain(text, size))
                return 0;
        text[size] = '\0';
        if (type == GNUTLS_SAN_URI && (startswith(text, DNS) || startswith(text, HOST_FROM_TOKEN)))
                return 0;
        (void) snprintf(name, TLS_NAME_MAX, "%s%.*s", type == GNUTLS_SAN_URI ? "" : DNS,
                        (int) (TLS_NAME_MAX - sizeof(DNS)), text);
        return 1;
}

static int read_names(gnutls_x509_crt_t crt, struct tls_peer *p, char why[static TLS_WHY_MAX]) {
        char name[TLS_NAME_MAX];
        int r;

        p->n = 0;
        for (unsigned i = 0; (r = read_name(crt, i, name)) >= 0; i++) {
                if (r == 0)
                        continue;
                if (p->n == TLS_NAMES_MAX)
                        return text_fail(why, TLS_WHY_MAX, -EACCES,
                                         "the client certificate has more than %d names", TLS_NAMES_MAX);
                memcpy(p->names[p->n++], name, sizeof(name));
        }
        return 0;
}

static const char *what_is_wrong(int r, unsigned status) {
        if (r < 0)
                return "not one that can be read";
        if (status & GNUTLS_CERT_REVOKED)
                return "revoked";
        if (status & GNUTLS_CERT_EXPIRED)
                return "expired";
        if (status & GNUTLS_CERT_NOT_ACTIVATED)
                return "not valid yet";
        if (status & GNUTLS_CERT_PURPOSE_MISMATCH)
                return "not for clients (its extended key usage lacks clientAuth)";
        return "not of a CA that is trusted here";
}

static int verify_chain(gnutls_x509_crt_t chain[], unsigned n, gnutls_x509_trust_list_t trust,
                        struct tls_peer *p, char why[static TLS_WHY_MAX]) {
        gnutls_typed_vdata_st purpose = { .type = GNUTLS_DT_KEY_PURPOSE_OID,
                                          .data = (unsigned char *) (uintptr_t) GNUTLS_KP_TLS_WWW_CLIENT };
        unsigned status = 0;
        int r = gnutls_x509_trust_list_verify_crt2(trust, chain, n, &purpose, 1, 0, &status, NULL);

        if (r < 0 || status != 0)
                return text_fail(why, TLS_WHY_MAX, -EACCES, "the client certificate is %s",
                                 what_is_wrong(r, status));
        p->not_after = USEC_INFINITY;
        for (unsigned i = 0; i < n; i++) {
                time_t end = gnutls_x509_crt_get_expiration_time(chain[i]);

                p->not_after = MIN(p->not_after, end > 0 ? (usec_t) end * USEC_PER_SEC : 0);
        }
        return read_names(chain[0], p, why);
}

int tls_read_peer(gnutls_session_t session, gnutls_x509_trust_list_t trust, struct tls_peer *ret,
                  char why[static TLS_WHY_MAX]) {
        gnutls_x509_crt_t chain[CHAIN_MAX];
        const gnutls_datum_t *given;
        unsigned n = 0, len = 0;
        int r = 0;

        given = gnutls_certificate_get_peers(session, &len);
        if (!given || len == 0)
                return text_fail(why, TLS_WHY_MAX, -EACCES, "no client certificate was given");
        for (; n < MIN(len, (unsigned) CHAIN_MAX) && r >= 0; n += r >= 0) {
                r = gnutls_x509_crt_init(&chain[n]);
                if (r >= 0 && (r = gnutls_x509_crt_import(chain[n], &given[n], GNUTLS_X509_FMT_DER)) < 0)
                        gnutls_x509_crt_deinit(chain[n]);
        }
        if (r < 0)
                (void) snprintf(why, TLS_WHY_MAX, "the client certificate is %s", what_is_wrong(r, 0));
        r = r < 0 ? -EACCES : verify_chain(chain, n, trust, ret, why);
        while (n > 0)
                gnutls_x509_crt_deinit(chain[--n]);
        return r;
}

/* --- What the lists say of it -------------------------------------------------------------------------- */

/* The host: first says the map, then each pattern; the name that a list names is asked first. */
static void find_host(const struct host_from *h, const struct tls_peer *p, const char *first,
                      char ret[static HOST_FROM_MAX]) {
        ret[0] = '\0';
        if (!h || host_from_map(h, first, ret))
                return;
        for (size_t k = 0; k < p->n; k++)
                if (host_from_map(h, p->names[k], ret))
                        return;
        for (size_t i = 0; i < host_from_patterns(h); i++) {
                if (host_from_pattern(h, i, first, ret))
                        return;
                for (size_t k = 0; k < p->n; k++)
                        if (host_from_pattern(h, i, p->names[k], ret))
                                return;
        }
}

/* By its first URI, which the lists mostly go by. */
static void say_not_listed(const struct tls_peer *p, char why[static TLS_WHY_MAX]) {
        size_t i = 0;

        while (i < p->n && startswith(p->names[i], DNS))
                i++;
        if (p->n == 0)
                (void) snprintf(why, TLS_WHY_MAX, "the certificate has no URI and no DNS name");
        else
                (void) snprintf(why, TLS_WHY_MAX, "%s'%.120s' is not among those who may call",
                                i < p->n ? "" : "the certificate has no URI, and ",
                                p->names[i < p->n ? i : 0]);
}

int tls_judge_peer(const struct tls_callers *c, const struct tls_peer *p, struct tls_verdict *ret,
                   char why[static TLS_WHY_MAX]) {
        const struct name_list *const lists[] = { c->proxies, c->act, c->allow };
        const char *found = NULL;

        *ret = (struct tls_verdict){ 0 };
        for (size_t i = 0; i < p->n; i++)
                if (name_list_find(c->deny, p->names[i]))
                        return text_fail(why, TLS_WHY_MAX, -EACCES, "'%.120s' is denied here", p->names[i]);
        for (size_t k = 0; k < ELEMENTSOF(lists) && !found; k++)
                for (size_t i = 0; i < p->n && !found; i++)
                        if (name_list_find(lists[k], p->names[i])) {
                                found = p->names[i];
                                ret->proxy = k == 0;
                                ret->acts = k == 1;
                        }
        if (!found) {
                say_not_listed(p, why);
                return -EACCES;
        }
        (void) snprintf(ret->name, sizeof(ret->name), "%s", found);
        find_host(c->hosts, p, found, ret->host);
        ret->wants_token = c->hosts && !ret->host[0] && c->tokens;
        if (!c->hosts || ret->host[0] || ret->wants_token)
                return 0;
        return text_fail(why, TLS_WHY_MAX, -EACCES, "HostFrom= does not say which host '%.120s' is", found);
}

/* --- What a token says besides ------------------------------------------------------------------------- */

static bool refuse_proof(struct tls_proof *p, const char *what) {
        p->counts = false;
        (void) snprintf(p->why, sizeof(p->why), "%s", what);
        return false;
}

static bool take_token(const struct tls_callers *c, const struct instance_token *t, struct tls_proof *p) {
        char name[TLS_NAME_MAX], host[HOST_FROM_MAX], why[TLS_WHY_MAX];

        (void) snprintf(name, sizeof(name), HOST_FROM_TOKEN "%s/%s/%s", t->project, t->zone, t->name);
        if (!host_from_token(c->hosts, name, host)) {
                (void) snprintf(why, sizeof(why), "HostFrom= does not say which host '%.120s' is", name);
                return refuse_proof(p, why);
        }
        if (p->host[0] && (!streq(p->host, host) || !streq(p->instance, t->id))) {
                (void) snprintf(why, sizeof(why), "this connection is host %.63s's, and the instance token "
                                "is host %.63s's", p->host, host);
                return refuse_proof(p, why);
        }
        memcpy(p->name, name, sizeof(p->name));
        memcpy(p->host, host, sizeof(p->host));
        memcpy(p->instance, t->id, sizeof(p->instance));
        p->until = t->expires + TOKEN_CLOCKS;
        p->counts = true;
        return true;
}

bool tls_prove(const struct tls_callers *c, const char *authorization, usec_t now, struct tls_proof *p) {
        const char *token = NULL;
        char why[INSTANCE_TOKEN_WHY_MAX];
        struct instance_token t;
        uint8_t hash[32];

        if (authorization && startswith(authorization, BEARER))
                token = authorization + strlen(BEARER);
        if (!token) {
                p->looked = false;
                return refuse_proof(p, "this certificate is no host's by HostFrom=, and there is no instance"
                                       " token with the request ([Metadata] TokenAudience= of the agent)");
        }
        /* Not for each request: a signature is slow to check. */
        if (gnutls_hash_fast(GNUTLS_DIG_SHA256, token, strlen(token), hash) < 0)
                return refuse_proof(p, "out of memory");
        if (p->looked && p->changes == c->changes && memcmp(hash, p->hash, sizeof(hash)) == 0 &&
            (!p->counts || now <= p->until))
                return p->counts;
        memcpy(p->hash, hash, sizeof(hash));
        p->changes = c->changes;
        p->looked = true;
        return token_keys_check(c->tokens, token, strlen(token), now, &t, why) < 0 ? refuse_proof(p, why)
                                                                                  : take_token(c, &t, p);
}

/* --- The lists ----------------------------------------------------------------------------------------- */

int tls_callers_set(struct tls_callers *c, const char *allow, const char *act, const char *deny) {
        _cleanup_(name_list_freep) struct name_list *a = NULL, *b = NULL, *d = NULL;
        int r;

        r = name_list_new(allow, &a);
        if (r >= 0)
                r = name_list_new(act, &b);
        if (r >= 0)
                r = name_list_new(deny, &d);
        if (r < 0)
                return r;
        (void) name_list_free(c->allow);
        (void) name_list_free(c->act);
        (void) name_list_free(c->deny);
        c->allow = TAKE_PTR(a);
        c->act = TAKE_PTR(b);
        c->deny = TAKE_PTR(d);
        c->changes++;
        return 0;
}

bool tls_callers_look(struct tls_callers *c) {
        struct name_list *const lists[] = { c->allow, c->act, c->deny, c->proxies };
        char why[NAME_LIST_WHY_MAX];
        bool good = true;

        for (size_t i = 0; i <= ELEMENTSOF(lists) + 1; i++) {
                if (!(i < ELEMENTSOF(lists)    ? name_list_look(lists[i], why)
                      : i == ELEMENTSOF(lists) ? host_from_look(c->hosts, why)
                                               : c->tokens && token_keys_look(c->tokens, why)))
                        continue;
                c->changes++;
                if (!why[0])
                        continue;
                log_warning("TLS: %s; what the file said before stays in force", why);
                good = false;
        }
        return good;
}

void tls_callers_clear(struct tls_callers *c) {
        c->allow = name_list_free(c->allow);
        c->act = name_list_free(c->act);
        c->deny = name_list_free(c->deny);
        c->proxies = name_list_free(c->proxies);
        c->hosts = host_from_free(c->hosts);
        c->tokens = token_keys_free(c->tokens);
}
