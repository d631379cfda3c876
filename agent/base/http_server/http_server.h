/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The HTTP/1.1 server of our programs (libmicrohttpd in an sd-event loop), on a Unix socket or on TCP, there
 * with mutual TLS: requests whole, replies at once or later. What a call means is the handler's business.
 *
 * Everything a client can make us keep is bounded: connections, those of one user or address, headers, the
 * body of one request, the bodies of all together, and the time of each step. libmicrohttpd limits silence
 * only, and a client that sends one byte now and then is never silent: so each connection has a time by
 * which its next step must be done.
 *
 * Connections over TCP are shared between who is accepted and who is not yet. Strangers have three quarters,
 * and what is left. Beyond, the oldest of them ends, of an address that has many if there is one: sockets
 * that nobody uses keep nobody out. Addresses alone are no measure, for a fleet may stand behind one. Who is
 * accepted counts by its certificate; beyond its share it is answered 503. With 403 or that the connection
 * ends.
 *
 * Who calls is looked at when the header is there: nothing of a stranger's body is kept. What is not kept is
 * read to its end and thrown away, within a bound, so that the client hears why instead of a reset.
 */
#include <sys/socket.h>
#include <systemd/sd-event.h>

#include "server_certificate.h"
#include "tcp_address.h"
#include "tls_peer.h"

#define HTTP_LOCAL_OF_USERS 24 /* connections to a Unix socket that all but root have at most, and */
#define HTTP_LOCAL_OF_USER 12 /* each of them; who has enough is answered 503 at once */
#define HTTP_ALLOW_MAX 32 /* bytes of the methods of one path */
#define HTTP_STRANGER_DISCARD ((uint64_t) 1024 * 1024) /* of the body of a caller who is denied */

struct MHD_Connection;
struct routed;
/* One request, from its header until its reply is out. */
struct http_call;

struct http_caller {
        bool remote;       /* over TCP; else over the Unix socket */
        struct ucred peer; /* local: of the connect(2), from the kernel */
        bool acts; /* remote: as http_server_options.callers says; without TLS everybody does */
        bool proxy; /* with TLS: it calls for people, as http_server_options.callers says */
        /* with TLS: the name of its certificate that a list has, or of its VM; empty: none */
        char name[TLS_NAME_MAX];
        char host[HOST_FROM_MAX]; /* with TLS: which host it is; empty: not known */
        char instance[24]; /* the id of its VM, where an instance token proved it; empty: not known */
        char address[TCP_ADDRESS_TEXT_MAX]; /* remote */
};

struct http_request {
        const char *method, *path; /* the path without percent signs, up to "?" */
        const struct http_caller *caller; /* valid while the handler runs */
        const char *denied; /* why the caller may not even read; NULL: it may. /healthz apart, it gets 403 */
        const uint8_t *body; /* what was kept; not terminated */
        size_t len;
        uint64_t received; /* bytes that came, or were announced and not read */
        bool too_large;    /* more came than is kept for this call; body is empty */
        bool no_room;      /* bodies_max is in use; body is empty */
        const struct routed *routed; /* its route and arguments, once http_routes.h has matched it */
        struct MHD_Connection *connection; /* for the functions below */
        struct http_call *call;            /* for http_answer(), when the reply is for later */
};

struct http_reply {
        unsigned status;
        const char *content_type; /* static */
        void *body;               /* taken over; NULL: none */
        void (*release)(void *body); /* gives it back; NULL: it is malloc'ed */
        size_t len;
        /* Instead of what body has in memory so many zeros, as long as goes_on(body) says so: else the
         * connection ends. body is given back when it is over; both functions are set. 0: none */
        uint64_t zeros;
        bool (*goes_on)(void *body);
        char allow[HTTP_ALLOW_MAX]; /* of 405; empty: not said */
        char *location;       /* of 307; taken over */
        unsigned retry_after; /* seconds; 0: not said */
        const char *const *headers; /* others, name and value by turns, ended by NULL; they outlive the
                                       server. NULL: none */
        bool later; /* nothing else is set: http_answer() brings the reply, the request's body stays */
};
/* Gives back what it owns. */
void http_reply_clear(struct http_reply *reply);

struct http_server_options {
        const char *name; /* of the event sources */
        int fd;           /* listening; taken over, also on failure */
        unsigned connections; /* in all */
        unsigned of_caller;   /* with TLS: of one accepted certificate that is a host or a person; 0: any */
        size_t header_max;    /* of a connection: the line and headers of a request; 414 or 431 beyond */
        size_t bodies_max;    /* of all requests in the air */
        uint64_t discard_max; /* of one body that is not kept; the connection ends there */
        usec_t header_time;   /* from the connection, or the answer before, to a whole header */
        usec_t body_time;     /* from there to the whole request; 0: header_time is for both */
        usec_t answer_time;   /* until all of an answer was taken */

        struct server_certificate *certificate; /* NULL: no TLS; borrowed */
        bool rereads;            /* its files are looked at when a connection comes; else by the caller */
        struct tls_callers *callers; /* with TLS: who may call; borrowed */
        bool tls12;                  /* TLS 1.2 is spoken besides 1.3 */
        /* With TLS an answer ends the connection then, or up to a quarter earlier, so that those who came
         * together do not come again together. */
        usec_t life;
        usec_t check_again; /* with TLS: files are looked at after so long at the latest */

        size_t body_max; /* of a body that is kept */
        /* Whether that of this call is; its header is here. NULL: all are. Never of who is denied. */
        bool (*takes_body)(const struct http_request *q, void *userdata);
        void (*handle)(const struct http_request *q, struct http_reply *reply, void *userdata);
        void *userdata;
};

struct http_server;
int http_server_new(sd_event *e, const struct http_server_options *o, struct http_server **ret);
/* From now on the handler is not called: what comes before the end is answered 503. NULL is none. */
void http_server_close(struct http_server *h);
/* What was answered last still goes out, as far as it goes without waiting. */
struct http_server *http_server_free(struct http_server *h);
DEFINE_CLEANUP(struct http_server *, http_server_free)

/*
 * Inside the handler of a call that is put off: *slot is the call, and becomes NULL when the server ends
 * before the answer. A call that is not held is answered before http_server_free().
 */
void http_hold(const struct http_request *q, struct http_call **slot);
/*
 * The reply of a call that was put off, once; it may come while its handler still runs. What the connection
 * asks next is read only then. NULL: nobody waits for it.
 */
void http_answer(struct http_call *call, const struct http_reply *reply);

/* NULL when the request does not have it. Borrowed while the call is. */
const char *http_header(const struct http_request *q, const char *name);
/* The same of one that may come once. -ENOTUNIQ: it comes more often. */
int http_header_once(const struct http_request *q, const char *name, const char **ret);
/* Calls visit with every parameter of the query (value "" when it has none) until one answers non-zero,
 * which is returned. */
int http_query(const struct http_request *q,
               int (*visit)(const char *key, const char *value, void *userdata), void *userdata);
