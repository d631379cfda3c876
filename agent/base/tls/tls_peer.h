/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who may call a TLS server of ours, and which host a caller is. libmicrohttpd asks a client for its
 * certificate and takes every answer, so that the server checks each caller here: a chain to ClientCa= that
 * is valid now, not revoked, and may be used by a client, and names that the server's lists judge.
 */
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "host_from.h"
#include "name_list.h"
#include "token_keys.h"

#define TLS_WHY_MAX 200
#define TLS_NAME_MAX 256
#define TLS_NAMES_MAX 64 /* that are looked at of one certificate; one with more is refused */
/* GnuTLS' words for TLS 1.3 alone, and for 1.2 besides. */
#define TLS_PRIORITIES    "NORMAL:-VERS-ALL:+VERS-TLS1.3"
#define TLS_PRIORITIES_12 TLS_PRIORITIES ":+VERS-TLS1.2"

/* What the certificate of the other side says. */
struct tls_peer {
        char names[TLS_NAMES_MAX][TLS_NAME_MAX]; /* as name_list.h has them */
        size_t n;
        usec_t not_after; /* real clock: the first of its chain that ends */
};

/* -EACCES with why: there is none, or it does not count. */
int tls_read_peer(gnutls_session_t session, gnutls_x509_trust_list_t trust, struct tls_peer *ret,
                  char why[static TLS_WHY_MAX]);

/* The lists of a server: all owned by the program, which may replace them. */
struct tls_callers {
        struct name_list *allow, *act, *deny; /* act, deny NULL: nobody */
        struct name_list *proxies; /* who calls for people, to read alone, whatever act says; NULL: nobody */
        struct host_from *hosts;              /* NULL: which host a caller is does not matter */
        struct token_keys *tokens; /* of instance tokens, where a certificate is no host's; NULL: none */
        unsigned changes;                     /* how often any of them changed */
};
void tls_callers_clear(struct tls_callers *c);
/* Other lists but proxies, each as name_list_new() takes it. -E2BIG, -ENOMEM: as before. */
int tls_callers_set(struct tls_callers *c, const char *allow, const char *act, const char *deny);
/* Reads the files again that changed, and logs what is wrong with one: false; its previous content then
 * stays in force. */
bool tls_callers_look(struct tls_callers *c);

struct tls_verdict {
        bool acts, proxy;
        char name[TLS_NAME_MAX]; /* that a list names */
        char host[HOST_FROM_MAX]; /* empty: none that is known */
        bool wants_token;         /* one may say which host it is: tls_prove() */
};
/* Pure. -EACCES with why: also of a host that is not known where hosts asks for it. */
int tls_judge_peer(const struct tls_callers *c, const struct tls_peer *p, struct tls_verdict *ret,
                   char why[static TLS_WHY_MAX]);

/* What the instance tokens of a connection have proved. It begins as zeros. */
struct tls_proof {
        uint8_t hash[32];         /* of the token that was looked at last */
        bool looked, counts;      /* counts: that token, until: */
        unsigned changes;         /* of the lists, when it was looked at */
        usec_t until;             /* real clock */
        char name[TLS_NAME_MAX];  /* gce:PROJECT/ZONE/VM */
        char host[HOST_FROM_MAX]; /* empty: none yet. A connection is one VM's: another's is refused */
        char instance[24];        /* its id */
        char why[TLS_WHY_MAX];    /* it does not count */
};
/*
 * Looks at a request's "Authorization: Bearer TOKEN" (its value; NULL: none). now: real clock. Whether it
 * counts. A bearer token proves who had it, not who sends it: who reads a VM's token may use it until it
 * ends, over a connection with a certificate that may call.
 */
bool tls_prove(const struct tls_callers *c, const char *authorization, usec_t now, struct tls_proof *p);
