/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who may call a TLS server of ours. libmicrohttpd asks a client for its certificate and takes every answer,
 * so that the server checks each caller here: a chain to ClientCa= that is valid now and may be used by a
 * client, and a URI among its subject alternative names that one of the server's lists names.
 */
#include <gnutls/gnutls.h>

#include "base.h"

#define TLS_WHY_MAX 200
#define TLS_NAME_MAX 256
/* GnuTLS' words for TLS 1.2 and 1.3 and nothing older. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/*
 * What the peer of a session may do: *ret_which is the first of n lists that names one of its URIs, and
 * that URI. -EACCES with why. A list is of URIs with blanks between; "*" at the end of one stands for any
 * rest.
 */
int tls_check_peer(gnutls_session_t session, const char *const lists[], size_t n, size_t *ret_which,
                   char ret_name[static TLS_NAME_MAX], char why[static TLS_WHY_MAX]);
/* One list alone. Pure. */
bool tls_allows(const char *allow, const char *uri);
/* Whether a name of size bytes out of a certificate can be a URI (RFC 3986: ASCII without blanks and
 * controls). Pure. */
bool tls_name_is_plain(const char *name, size_t size);
