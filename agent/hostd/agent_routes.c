/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls there are (docs/api.md, docs/openapi-agent.yaml), and which arguments each takes. */
#include <assert.h>

#include "agent_calls.h"
#include "calls.h"
#include "http_routes.h"

#define LOCAL_CONNECTIONS 32 /* beyond, clients wait */
#define TLS_CONNECTIONS 64
#define TLS_OF_ADDRESS 16
#define TLS_LIFE (600 * USEC_PER_SEC)
#define TLS_CHECK_AGAIN (60 * USEC_PER_SEC)
#define HEADER_MAX ((size_t) 16 * 1024)
#define BODY_MAX ((size_t) 64 * 1024)
#define BODIES_MAX (16 * BODY_MAX)
#define DISCARD_MAX ((uint64_t) 1024 * 1024)
#define REQUEST_TIME (15 * USEC_PER_SEC)
#define ANSWER_TIME (60 * USEC_PER_SEC)

#define SERVED_MAX 64


static const struct part_route routes[] = {
        { ROUTE("GET", "/healthz"), .call = agent_get_healthz },
        { ROUTE("GET", "/metrics"), .call = agent_get_metrics },
        { ROUTE("GET", "/v1/status"), .call = agent_get_status },
        { ROUTE("GET", "/v1/checks"), .call = agent_get_checks },
        { ROUTE("GET", "/v1/runs"), .call = agent_get_runs },
        { ROUTE_WITH("GET", "/v1/events",
                     ARGUMENTS(TAKES_NUMBER("since", 0, INT64_MAX),
                               TAKES_NUMBER("wait", 0, AGENT_EVENTS_WAIT_MAX))),
          .call = agent_get_events },
        PART_ROUTES_END,
};

/* The calls of all parts, each with the state that it is called with. */
struct served {
        struct part_route route;
        void *self;
};

static void serve(struct agent *a, const struct part_route *list, void *self) {
        for (const struct part_route *r = list; r && r->call; r++) {
                assert(a->n_served < SERVED_MAX);
                a->served[a->n_served++] = (struct served){ .route = *r, .self = self };
        }
}

int agent_routes_start(struct bus *b) {
        struct agent *a = agent_of(b);

        a->served = calloc(SERVED_MAX, sizeof(*a->served));
        if (!a->served)
                return -ENOMEM;
        serve(a, routes, b);
        for (size_t i = 0; i < b->n_parts; i++)
                serve(a, b->parts[i]->routes, b->states[i]);
        return 0;
}

static struct http_route_table table_of(const struct bus *b) {
        return (struct http_route_table){ agent_of(b)->served, agent_of(b)->n_served, sizeof(struct served) };
}

static int too_much(const struct http_request *r, struct http_reply *ret) {
        if (r->no_room)
                return answer_error(ret, 503, "try again", "too many bodies at once");
        return answer_error(ret, 413, "arguments go behind a question mark: docs/api.md",
                                  "no call has so long a body");
}

/* --- Handlers ------------------------------------------------------------------------------------------ */

/* 1: the answer follows. */
static int answer_call(struct bus *b, const struct http_request *r, struct http_reply *ret) {
        const struct http_route_table table = table_of(b);
        struct http_request known = *r;
        const struct served *s;
        char allow[HTTP_ALLOW_MAX];
        struct routed routed;

        if (r->received > BODY_MAX || r->no_room)
                return too_much(r, ret);
        if (caller_is_refused(b, r, ret))
                return 0;
        known.routed = &routed;
        /* The route is the first member. */
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
        const struct agent *a = agent_of(userdata);

        for (size_t i = 0; i < a->n_served; i++) {
                const struct part_route *p = &a->served[i].route;

                if (p->takes_body && streq(p->route.method, r->method) && streq(p->route.path, r->path))
                        return true;
        }
        return false;
}

int agent_api_serve(struct bus *b, int fd, struct server_certificate *certificate,
                    struct http_server **ret) {
        const struct http_server_options o = {
                .name = certificate ? "api-tls" : "api",
                .fd = fd,
                .connections = certificate ? TLS_CONNECTIONS : LOCAL_CONNECTIONS,
                .of_address = certificate ? TLS_OF_ADDRESS : 0,
                .header_max = HEADER_MAX,
                .bodies_max = BODIES_MAX,
                .discard_max = DISCARD_MAX,
                .header_time = REQUEST_TIME,
                .answer_time = ANSWER_TIME,
                .certificate = certificate,
                .allow = "",
                .act = "",
                .life = TLS_LIFE,
                .check_again = TLS_CHECK_AGAIN,
                .body_max = BODY_MAX,
                .takes_body = takes_body,
                .handle = on_request,
                .userdata = b,
        };

        return http_server_new(b->event, &o, ret);
}
