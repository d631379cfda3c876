/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls there are (docs/api.md, docs/openapi-agent.yaml), and which arguments each takes. */
#include "agent_calls.h"
#include "agent_watch.h"
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

#define ORDER_TAKES TAKES_TEXT("reason", 0), TAKES_TIME("until")
#define SILENCE_TAKES TAKES_TEXT("check", 0), TAKES_TEXT("subject", 0)

struct agent_route {
        struct route route; /* NAME in a path: of a run, checked by the call */
        int (*call)(struct agent *a, const struct http_request *r, struct http_reply *ret);
};

static const struct argument order_arguments[] = { ORDER_TAKES, TAKES_END },
                             silence_arguments[] = { SILENCE_TAKES, ORDER_TAKES, TAKES_END },
                             watch_arguments[] = { TAKES_SOME("run"),
                                                   TAKES_NUMBER("watch", 1, WATCH_SECONDS_MAX), TAKES_END };

static const struct agent_route routes[] = {
        { ROUTE("GET", "/healthz"), agent_get_healthz },
        { ROUTE("GET", "/metrics"), agent_get_metrics },
        { ROUTE("GET", "/v1/status"), agent_get_status },
        { ROUTE("GET", "/v1/checks"), agent_get_checks },
        { ROUTE("GET", "/v1/identity"), agent_get_identity },
        { ROUTE("GET", "/v1/runs"), agent_get_runs },
        { ROUTE("POST", "/v1/runs"), agent_post_run },
        { ROUTE("DELETE", "/v1/runs/NAME"), agent_delete_run },
        { ROUTE("POST", "/v1/runs/NAME/capture"), agent_post_stack },
        { ROUTE("GET", "/v1/captures"), agent_get_captures },
        { ROUTE_WITH("POST", "/v1/captures", ARGUMENTS(TAKES_SOME("run"))), agent_post_capture },
        { ROUTE_WITH("GET", "/v1/events",
                     ARGUMENTS(TAKES_NUMBER("since", 0, INT64_MAX),
                               TAKES_NUMBER("wait", 0, AGENT_EVENTS_WAIT_MAX))),
          agent_get_events },
        { ROUTE_WITH("GET", "/v1/sched", watch_arguments), agent_get_sched },
        { ROUTE_WITH("GET", "/v1/io", watch_arguments), agent_get_io },
        { ROUTE_WITH("GET", "/v1/net", ARGUMENTS(TAKES_SOME("peer"))), agent_get_net },
        { ROUTE("GET", "/v1/path"), agent_path_get },
        { ROUTE_WITH("POST", "/v1/path", ARGUMENTS(TAKES_SOME("peer"))), agent_path_post },
        { ROUTE_WITH("PUT", "/v1/cordon", order_arguments), agent_orders_call },
        { ROUTE("DELETE", "/v1/cordon"), agent_orders_call },
        { ROUTE_WITH("PUT", "/v1/drain", order_arguments), agent_orders_call },
        { ROUTE("DELETE", "/v1/drain"), agent_orders_call },
        { ROUTE_WITH("PUT", "/v1/observe", order_arguments), agent_orders_call },
        { ROUTE("DELETE", "/v1/observe"), agent_orders_call },
        { ROUTE_WITH("PUT", "/v1/silence", silence_arguments), agent_orders_call },
        { ROUTE_WITH("DELETE", "/v1/silence", ARGUMENTS(SILENCE_TAKES)), agent_orders_call },
};
static const struct route_table table = ROUTE_TABLE(routes);

static int too_much(const struct http_request *r, struct http_reply *ret) {
        if (r->no_room)
                return agent_answer_error(ret, 503, "try again", "too many bodies at once");
        return agent_answer_error(ret, 413, "arguments go behind a question mark: docs/api.md",
                                  "no call has so long a body");
}

/* --- Handlers ------------------------------------------------------------------------------------------ */

/* 1: the answer follows. */
static int answer(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        struct http_request known = *r;
        char allow[HTTP_ALLOW_MAX];
        struct routed routed;

        if (r->received > BODY_MAX || r->no_room)
                return too_much(r, ret);
        if (agent_caller_is_refused(a, r, ret))
                return 0;
        known.routed = &routed;
        if (!routes_find(&table, r, &routed, allow))
                routes_refuse(&table, r, allow, ret);
        else if (routes_check_arguments(r, &routed, ret))
                return ((const struct agent_route *) (const void *) routed.route)->call(a, &known, ret);
        return 0;
}

static void on_request(const struct http_request *r, struct http_reply *ret, void *userdata) {
        ret->later = answer(userdata, r, ret) == 1;
}

/* Other bodies are passed over. */
static bool takes_body(const struct http_request *r) {
        return streq(r->method, "POST") && streq(r->path, "/v1/runs");
}

int agent_api_serve(struct agent *a, int fd, struct server_certificate *certificate,
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
                .userdata = a,
        };

        return http_server_new(a->event, &o, ret);
}
