/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Who is connected to an HTTP server, what it may do, and for how long. Inside the room only. */
#include <microhttpd.h>

#include "http_server.h"

/* What a connection does, in the order of one request; each but the last has its time. */
enum http_phase {
        HTTP_PHASE_HEADER, /* it is to send a header */
        HTTP_PHASE_BODY,
        HTTP_PHASE_ANSWER, /* it is to take the answer */
        HTTP_PHASE_WAITS, /* for us */
        _HTTP_PHASE_MAX
};

#define HTTP_COUNTS 65536 /* by a hash: enough that callers of a large site hardly share one */

struct http_connection;
/* All that are in one phase. They have the same time for it, so that the first came first and ends first. */
struct http_line {
        struct http_connection *first, *last;
};

struct http_connections {
        sd_event *event; /* borrowed */
        sd_event_source *timer;
        usec_t armed; /* boot clock; USEC_INFINITY: the timer is off */
        const struct http_server_options *o; /* borrowed */
        usec_t looked;  /* boot clock: at the files, when o says so */
        bool local;     /* a Unix socket */
        struct http_line strangers; /* over TCP: no request of theirs was accepted yet; the oldest first */
        unsigned n, n_strangers; /* n: of all */
        uint16_t *counts; /* of strangers by address, and of accepted callers by name: HTTP_COUNTS of each */
        struct http_line lines[_HTTP_PHASE_MAX];
};

int http_connections_init(struct http_connections *all, sd_event *e, const struct http_server_options *o);
/* After libmicrohttpd's end. */
void http_connections_clear(struct http_connections *all);
/* For MHD_OPTION_NOTIFY_CONNECTION; userdata is a struct http_connections. */
void http_connections_notify(void *userdata, struct MHD_Connection *mhd, void **context,
                             enum MHD_ConnectionNotificationCode how);

/* When an answer is the last of connection c (any address) that came now: at the end of its life, or up to a
 * quarter of it earlier. */
usec_t http_connection_ends(usec_t now, usec_t life, const void *c);
/* NULL: it was turned away. */
struct http_connection *http_connection_of(struct MHD_Connection *mhd);
void http_connection_enter(struct http_connections *all, struct http_connection *c, enum http_phase phase);
/* Sets caller and denied. */
void http_connection_identify(struct http_connections *all, struct http_connection *c,
                              struct http_request *q);
/* Whether its caller has more connections than its share: it is answered 503. */
bool http_connection_is_crowded(const struct http_connection *c);
/* Whether the answer that goes out is to be its last one. */
bool http_connection_is_old(const struct http_connections *all, const struct http_connection *c);
