/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The query API over TCP: who is connected, what the certificate of each lets it do, and for how long.
 * libmicrohttpd speaks TLS but admits everybody: the answer to "who is it" is given here, for each request.
 *
 * libmicrohttpd's own limit is on silence: a client that sends one byte now and then is silent never. Here
 * each connection has a deadline for its handshake and a whole request, and another one for taking the
 * answer.
 */
#include <microhttpd.h>

#include "api.h"
#include "server_certificate.h"

#define API_TLS_CONNECTIONS 64
#define API_TLS_PER_ADDRESS 16
#define API_TLS_LIFE (600 * USEC_PER_SEC) /* then the answer ends the connection: files and lists have changed */
#define API_TLS_CHECK_AGAIN (60 * USEC_PER_SEC) /* a certificate may have ended meanwhile */

struct api_tls_options {
        struct server_certificate *certificate; /* borrowed */
        const char *readers, *actors; /* who may read; who may read and act; lists as in tls_peer.h; borrowed */
};

struct api_tls;
int api_tls_new(sd_event *e, const struct api_tls_options *o, struct api_tls **ret);
/* After libmicrohttpd's end. */
struct api_tls *api_tls_free(struct api_tls *t);
DEFINE_CLEANUP(struct api_tls *, api_tls_free)

/* Other lists than before: they hold for connections that are there, too. Borrowed. */
void api_tls_allow(struct api_tls *t, const char *readers, const char *actors);

/* What libmicrohttpd is to be started with; items is borrowed by nobody. */
void api_tls_mhd_options(struct api_tls *t, struct MHD_OptionItem items[API_OPTIONS]);

/* Who calls. NULL: it may read (and act, when ret->acts); else why not, valid with the connection. */
const char *api_tls_identify(struct api_tls *t, struct MHD_Connection *c, struct api_caller *ret);

/* The call waits for us: no deadline. */
void api_tls_waits(struct api_tls *t, struct MHD_Connection *c);
/* The answer goes out now. Returns whether it is to be the last on its connection. */
bool api_tls_answers(struct api_tls *t, struct MHD_Connection *c);
/* It is out, or nobody takes it: the next request may come. */
void api_tls_done(struct api_tls *t, struct MHD_Connection *c);
