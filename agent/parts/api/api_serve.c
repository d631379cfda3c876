/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of all parts, on whatever listens: the Unix socket (api_part.c) and TCP (api_port.c). */
#include <assert.h>

#include "api_state.h"
#include "calls.h"

#define LOCAL_CONNECTIONS 32 /* beyond, clients wait */
#define TLS_CONNECTIONS 64
#define TLS_OF_CALLER 16
#define METRICS_CONNECTIONS 16
#define TLS_LIFE (600 * USEC_PER_SEC)
#define TLS_CHECK_AGAIN (60 * USEC_PER_SEC)
#define HEADER_MAX ((size_t) 16 * 1024)
#define BODY_MAX ((size_t) 64 * 1024)
#define BODIES_MAX (16 * BODY_MAX)
#define DISCARD_MAX ((uint64_t) 1024 * 1024)
#define REQUEST_TIME (15 * USEC_PER_SEC)
#define ANSWER_TIME (60 * USEC_PER_SEC)

struct served {
        struct part_route route; /* the first member: http_route_table */
        void *self; /* the state that it is called with */
};

static const struct part_route *find_served(const struct api_state *p, const char *method,
                                            const char *path) {
        for (size_t i = 0; i < p->n_served; i++)
                if (streq(p->served[i].route.route.method, method) &&
                    streq(p->served[i].route.route.path, path))
                        return &p->served[i].route;
        return NULL;
}

int api_collect_routes(struct api_state *p) {
        const struct bus *b = p->bus;
        size_t n = 0;

        for (size_t i = 0; i < b->n_parts; i++)
                for (const struct part_route *r = b->parts[i]->routes; r && r->call; r++)
                        n++;
        p->served = calloc(n, sizeof(*p->served));
        if (!p->served)
                return -ENOMEM;
        for (size_t i = 0; i < b->n_parts; i++)
                for (const struct part_route *r = b->parts[i]->routes; r && r->call; r++) {
                        assert(!find_served(p, r->route.method, r->route.path)); /* it belongs to one part */
                        p->served[p->n_served++] = (struct served){ .route = *r, .self = b->states[i] };
                }
        assert(p->n_served == n);
        return 0;
}

static int refuse_body(const struct http_request *r, struct http_reply *ret) {
        if (r->no_room)
                return answer_error(ret, 503, "try again", "too many bodies at once");
        return answer_error(ret, 413, "arguments go behind a question mark: "
                                      "/usr/share/doc/tpu-hostd/api.md",
                            "no call has so long a body");
}

/* 1: the answer follows. */
static int answer_call(struct api_state *p, const struct http_request *r, struct http_reply *ret) {
        const struct http_route_table table = { p->served, p->n_served, sizeof(*p->served) };
        struct http_request known = *r;
        const struct served *s;
        char allow[HTTP_ALLOW_MAX];
        struct routed routed;

        if (r->received > BODY_MAX || r->no_room)
                return refuse_body(r, ret);
        if (caller_is_refused(p->bus, r, ret))
                return 0;
        known.routed = &routed;
        s = (const struct served *) (const void *) routes_find(&table, r, &routed, allow);
        if (!s)
                routes_refuse(&table, r, allow, ret);
        else if (routes_check_arguments(r, &routed, ret))
                return s->route.call(s->self, &known, ret);
        return 0;
}

static void on_request(const struct http_request *r, struct http_reply *ret, void *userdata) {
        ret->later = answer_call(userdata, r, ret) == 1;
}

/* Other bodies are passed over. */
static bool takes_body(const struct http_request *r, void *userdata) {
        const struct part_route *route = find_served(userdata, r->method, r->path);

        return route && route->takes_body;
}

int api_serve(struct api_state *p, int fd, const struct api_security *tls, struct http_server **ret) {
        const struct http_server_options o = {
                .name = tls ? "api-tls" : "api",
                .fd = fd,
                .connections = tls ? TLS_CONNECTIONS : LOCAL_CONNECTIONS,
                .of_caller = TLS_OF_CALLER,
                .header_max = HEADER_MAX,
                .bodies_max = BODIES_MAX,
                .discard_max = DISCARD_MAX,
                .header_time = REQUEST_TIME,
                .answer_time = ANSWER_TIME,
                .certificate = tls ? tls->certificate : NULL,
                .callers = tls ? tls->callers : NULL,
                .tls12 = tls && tls->tls12,
                .life = TLS_LIFE,
                .check_again = TLS_CHECK_AGAIN,
                .body_max = BODY_MAX,
                .takes_body = takes_body,
                .handle = on_request,
                .userdata = p,
        };

        assert(p->served);
        return http_server_new(p->bus->event, &o, ret);
}

/* Who calls there is nobody in particular: it reads the numbers, which every user of this host may. */
static void on_scrape(const struct http_request *r, struct http_reply *ret, void *userdata) {
        if (!http_is_called_by_address(r))
                (void) answer_error(ret, 403, "call it by its address, or as localhost",
                                    "a page of another site could have sent this call");
        else if (streq(r->path, "/metrics"))
                on_request(r, ret, userdata);
        else
                (void) answer_error(ret, 404, "/metrics; the other calls are on the API's socket",
                                    "MetricsListen= has /metrics alone");
}

int api_serve_metrics(struct api_state *p, int fd, struct http_server **ret) {
        const struct http_server_options o = {
                .name = "api-metrics",
                .fd = fd,
                .connections = METRICS_CONNECTIONS,
                .header_max = HEADER_MAX,
                .discard_max = DISCARD_MAX,
                .header_time = REQUEST_TIME,
                .answer_time = ANSWER_TIME,
                .handle = on_scrape,
                .userdata = p,
        };

        assert(p->served);
        return http_server_new(p->bus->event, &o, ret);
}
