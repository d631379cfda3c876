/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The state of the part, and what its files have of each other. */
#include "part.h"

struct served; /* a call, and the state of its part */
struct api_tls;

#define EVENT_WAITERS_MAX 16 /* who comes then is answered at once */
#define EVENTS_WAIT_MAX 30 /* seconds */

struct event_waiter {
        struct http_call *call; /* NULL: the place is free */
        uint64_t since;
        usec_t until; /* of the boot clock */
        uid_t uid;
        bool remote;
        bool stacks; /* may see them */
};

struct api_port { /* on TCP */
        char listen[64]; /* as wanted; empty: not at all */
        struct http_server *server; /* NULL: it does not listen (yet) */
        char where[TCP_ADDRESS_TEXT_MAX], why_not[200];
};

struct api_state {
        struct bus *bus;
        struct served *served;
        size_t n_served;
        struct http_server *local; /* on the Unix socket */
        struct api_tls *tls;       /* NULL: not configured */
        struct api_port metrics;

        sd_event_source *waiters_timer; /* NULL: nobody can wait yet, or any more */
        struct event_waiter waiters[EVENT_WAITERS_MAX];
        bool news; /* waiters_timer stands at the end of the pause behind an event */
};

struct api_security { /* of the port over TCP; borrowed */
        struct server_certificate *certificate;
        struct tls_callers *callers;
        bool tls12;
};

/* api_serve.c: gathers the calls of all parts, once, before the first api_serve(). -ENOMEM. */
int api_collect_routes(struct api_state *p);
/* Serves all calls on fd, which is taken over: TCP, or the Unix socket, where there is none. */
int api_serve(struct api_state *p, int fd, const struct api_security *tls, struct http_server **ret);

/* Serves /metrics alone, to whoever reaches fd. */
int api_serve_metrics(struct api_state *p, int fd, struct http_server **ret);

/* api_port.c: true: it listens since this call. One that is taken is tried again. NULL: /metrics alone. */
bool api_port_open(struct api_state *p, struct api_port *t, const struct api_security *tls);
/* The finding api.listen. */
void api_port_judge(const struct api_port *t, const char *subject, struct finding *ret);
void api_port_close(struct api_port *t);
/* The loopback port of /metrics, as the settings now want it. */
void api_metrics_look(struct api_state *p);
void api_metrics_report(const struct api_state *p, struct sink *s);

/* api_events.c: GET /v1/events, and those who wait there for the next event. */
int api_events_start(struct api_state *p);
int api_get_events(void *self, const struct http_request *r, struct http_reply *ret);
/* An event is in the ring. */
void api_events_wake(struct api_state *p);
/* Answers all who wait. */
void api_events_stop(struct api_state *p);

/* api_tls.c: the API over TCP, its certificate, and the checks of both. */
int api_tls_start(struct api_state *p);
/* Files that changed are read, and it listens as soon as it can. */
void api_tls_look(struct api_state *p);
void api_tls_report(const struct api_state *p, struct sink *s);
/* After the settings were read again. */
void api_tls_reload(struct api_state *p);
void api_tls_stop(struct api_state *p);
