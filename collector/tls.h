/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who may call: TLS with certificates of both sides. libmicrohttpd asks a client for its certificate and
 * takes every answer, so that each request is checked here: a chain to ClientCa= that is valid now, and a
 * URI among its subject alternative names that the list of the port names.
 */
#include <gnutls/gnutls.h>

#include "base.h"

#define TLS_WHY_MAX  200
#define TLS_NAME_MAX 256
#define TLS_FILE_MAX ((size_t) 256 * 1024)

struct tls { /* PEM texts, malloc'ed; certificate NULL: no TLS */
        char *certificate, *key, *client_ca;
};

/* All three files, or none (empty paths). Errors are -errno with why, which names the file. */
int tls_load(const char *certificate, const char *key, const char *client_ca, struct tls *ret,
             char why[static TLS_WHY_MAX]);
void tls_clear(struct tls *t);

/*
 * Whether the peer of a session may call: 0 and its URI, -EACCES with why. allow is a list of URIs with
 * blanks between; "*" at the end of one stands for any rest.
 */
int tls_check_peer(gnutls_session_t session, const char *allow, char ret_name[static TLS_NAME_MAX],
                   char why[static TLS_WHY_MAX]);
/* The list alone. Pure. */
bool tls_allows(const char *allow, const char *uri);
