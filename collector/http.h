/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An HTTP/1.1 server in an sd-event loop (libmicrohttpd): requests whole, replies at once or later. Bounded
 * in connections, headers, idle time, the body of one request and the bodies of all together. A body that is
 * too long is read to its end and thrown away up to HTTP_DISCARD_MAX, so that the client hears why instead
 * of a reset.
 */
#include <systemd/sd-event.h>

#include "tcp_address.h"
#include "server_certificate.h"

#define HTTP_TIMEOUT_S         30
#define HTTP_CONNECTION_MEMORY ((size_t) 8 * 1024)          /* headers and read buffer of one connection */
#define HTTP_BODIES_MAX        ((size_t) 128 * 1024 * 1024) /* of all requests in the air */
#define HTTP_DISCARD_MAX       ((uint64_t) 64 * 1024 * 1024) /* what the OTLP specification lets one send */

struct MHD_Connection;
struct http_call;

struct http_request {
        const char *method, *path; /* the path without percent signs, up to "?" */
        const uint8_t *body;
        size_t len;
        bool too_large; /* there was more than body_max; body is empty */
        bool no_room;   /* HTTP_BODIES_MAX is in use; body is empty */
        char peer[TCP_ADDRESS_TEXT_MAX];
        const char *name;   /* with TLS: the URI of its certificate that a list names; NULL: not known */
        bool may_act;       /* not only read: as http_options.act says */
        const char *denied; /* why the caller may not call; NULL: it may. /healthz aside it is to be 403 */
        struct MHD_Connection *connection; /* for the functions below */
        struct http_call *call;            /* for http_answer(), when the reply is for later */
};

struct http_reply {
        unsigned status;
        const char *content_type; /* static */
        void *body;               /* taken over; NULL: none */
        void (*release)(void *body); /* gives it back; NULL: it is malloc'ed */
        size_t len;
        const char *allow;    /* static, of 405 */
        char *location;       /* of 307; taken over */
        unsigned retry_after; /* seconds; 0: not said */
        bool later; /* nothing else is set: http_answer() brings the reply; body stays until then */
};

struct http_options {
        const char *name; /* of the event sources */
        int fd;           /* listening; taken over */
        unsigned connections;
        size_t body_max;
        struct server_certificate *certificate; /* NULL: plain; borrowed */
        const char *allow;                      /* with TLS: who may call, as in tls_peer.h; borrowed */
        const char *act; /* with TLS: who may act besides; NULL: nobody is asked, as without TLS */
        void (*handle)(const struct http_request *q, struct http_reply *reply, void *userdata);
        void *userdata;
};

/* Gives its body back. */
void http_reply_clear(struct http_reply *reply);

struct http;
int http_new(sd_event *e, const struct http_options *o, struct http **ret);
/* From now on the handler is not called: what comes before http_free() is answered 503. NULL is none. */
void http_close(struct http *h);
/* What was answered last still goes out, as far as it goes without waiting. */
struct http *http_free(struct http *h);
DEFINE_CLEANUP(struct http *, http_free)

/*
 * The reply of a call that was put off, once, not from inside its handler. What the connection asks next is
 * read only then. All calls must be answered before http_free().
 */
void http_answer(struct http_call *call, const struct http_reply *reply);

/* NULL when the request does not have it. Borrowed. */
const char *http_header(const struct http_request *q, const char *name);
/* Calls visit with every parameter of the query (value "" when it has none) until one answers non-zero,
 * which is returned. */
int http_query(const struct http_request *q,
               int (*visit)(const char *key, const char *value, void *userdata), void *userdata);
