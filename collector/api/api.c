/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls there are (docs/api.md, docs/openapi-collector.yaml), what each takes, and what it needs. */
#include "api_calls.h"
#include "http_routes.h"
#include "paths.h"

/* --- Calls ----------------------------------------------------------------------------------------- */

#define WAIT_MAX 30 /* seconds */

enum needs {
        NEEDS_NOTHING,
        NEEDS_LEADER,    /* where there is a registry: of the collector that leads */
        NEEDS_REGISTRY,  /* that, and a registry */
        NEEDS_TELEMETRY, /* answered from what agents push: wherever that is kept */
};

struct api_route {
        struct http_route route;
        enum needs needs;
        api_call *call;
};

static void api_health(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        (void) a;
        (void) q;
        reply->status = 200;
        reply->content_type = "text/plain; charset=utf-8";
        reply->body = strdup("ok\n");
        reply->len = reply->body ? 3 : 0;
}

static void reply_page(const struct api *a, const char *name, const struct http_request *q,
                       struct http_reply *reply) {
        if (a->page && page_reply(a->page, name, q, reply))
                return;
        api_reply_error(reply, 404, a->page ? "the page has no such file" : "this collector has no page",
                        a->page ? "open / of this collector in a browser"
                                : "ls " PATH_COLLECTOR_PAGE " # where the package tpu-collector has it, "
                                  "if it was built with it; tpuctl fleet shows the same");
}

static void api_page_index(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        reply_page(a, PAGE_INDEX, q, reply);
}

static void api_page_file(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        reply_page(a, route_part(q, 0), q, reply);
}

#define TEXT(name) TAKES_TEXT(name, 0)
#define LIMIT(most) TAKES_NUMBER("limit", 1, most)
#define COUNT(name) TAKES_NUMBER(name, 0, INT64_MAX)
#define WAIT TAKES_NUMBER("wait", 0, WAIT_MAX)
#define REASON TAKES_TEXT("reason", API_REASON_MAX)

/* Whoever is held up by an order reads why. */
#define NEEDED_REASON { .name = "reason", .most = API_REASON_MAX, .needed = true }

static const struct argument order_arguments[] = { NEEDED_REASON, TAKES_TIME("until"), TAKES_END };

static const char *const readers[] = { "agent", NULL };

static const struct api_route routes[] = {
        { ROUTE_WITH("GET", "/api/v1/hosts",
                     ARGUMENTS(TEXT("host"), TEXT("slice"), TAKES_WORD("state", fleet_states),
                               LIMIT(API_HOSTS_MAX), COUNT("offset"))),
          NEEDS_LEADER, api_hosts },
        { ROUTE("GET", "/api/v1/hosts/NAME"), NEEDS_LEADER, api_host },
        { ROUTE("GET", "/api/v1/hosts/NAME/orders"), NEEDS_REGISTRY, api_orders },
        { ROUTE_WITH("PUT", "/api/v1/hosts/NAME/mode", order_arguments), NEEDS_REGISTRY, api_act_order },
        { ROUTE("DELETE", "/api/v1/hosts/NAME/mode"), NEEDS_REGISTRY, api_act_order },
        { ROUTE_WITH("PUT", "/api/v1/hosts/NAME/cordon", order_arguments), NEEDS_REGISTRY, api_act_order },
        { ROUTE("DELETE", "/api/v1/hosts/NAME/cordon"), NEEDS_REGISTRY, api_act_order },
        { ROUTE_WITH("PUT", "/api/v1/hosts/NAME/drain", order_arguments), NEEDS_REGISTRY, api_act_order },
        { ROUTE("DELETE", "/api/v1/hosts/NAME/drain"), NEEDS_REGISTRY, api_act_order },
        { ROUTE("GET", "/api/v1/slices"), NEEDS_LEADER, api_slices },
        { ROUTE("GET", "/api/v1/slices/NAME"), NEEDS_REGISTRY, api_slice },
        { ROUTE_WITH("DELETE", "/api/v1/slices/NAME/slots/WORKER", ARGUMENTS(REASON)), NEEDS_REGISTRY,
          api_release_slot },
        { ROUTE_WITH("POST", "/api/v1/slices/NAME/capture", ARGUMENTS(REASON, TEXT("run"))), NEEDS_REGISTRY,
          api_capture },
        { ROUTE("GET", "/api/v1/slices/NAME/pairs"), NEEDS_REGISTRY, api_pairs },
        { ROUTE_WITH("POST", "/api/v1/slices/NAME/pairs", ARGUMENTS(REASON)), NEEDS_REGISTRY,
          api_post_pairs },
        { ROUTE_WITH("GET", "/api/v1/slices/NAME/diagnosis",
                     ARGUMENTS(TEXT("episode"), TAKES_WORD("for", readers))),
          NEEDS_REGISTRY, api_diagnosis },
        { ROUTE_WITH("GET", "/api/v1/slices/NAME/captures", ARGUMENTS(TEXT("episode"), COUNT("since"))),
          NEEDS_REGISTRY, api_captures },
        { ROUTE("GET", "/api/v1/slices/NAME/episodes"), NEEDS_REGISTRY, api_episodes },
        { ROUTE("GET", "/api/v1/runs"), NEEDS_REGISTRY, api_runs },
        { ROUTE("POST", "/api/v1/runs"), NEEDS_REGISTRY, api_post_run },
        { ROUTE("GET", "/api/v1/runs/NAME"), NEEDS_REGISTRY, api_run },
        { ROUTE("DELETE", "/api/v1/runs/NAME"), NEEDS_REGISTRY, api_delete_run },
        { ROUTE_WITH("GET", "/api/v1/runs/NAME/logs",
                     ARGUMENTS(TEXT("host"), TEXT("worker"), COUNT("since"), LIMIT(API_LINES_MAX), WAIT)),
          NEEDS_TELEMETRY, api_lines },
        { ROUTE_WITH("GET", "/api/v1/runs/NAME/why", ARGUMENTS(TAKES_NUMBER("lines", 0, API_LINES_DEFAULT))),
          NEEDS_TELEMETRY, api_why },
        { ROUTE("GET", "/api/v1/suspects"), NEEDS_TELEMETRY, api_suspects },
        { ROUTE("GET", "/api/v1/mode"), NEEDS_REGISTRY, api_mode },
        { ROUTE_WITH("PUT", "/api/v1/mode", order_arguments), NEEDS_REGISTRY, api_act_mode },
        { ROUTE("DELETE", "/api/v1/mode"), NEEDS_REGISTRY, api_act_mode },
        { ROUTE_WITH("GET", "/api/v1/events",
                     ARGUMENTS(TEXT("host"), TEXT("slice"), TEXT("name"), COUNT("since"),
                               LIMIT(API_EVENTS_MAX), WAIT, TAKES_TIME("from"))),
          NEEDS_TELEMETRY, api_events },
        { ROUTE_WITH("GET", "/api/v1/series",
                     ARGUMENTS(TEXT("host"), TEXT("name"), LIMIT(API_POINTS_MAX), TAKES_TIME("from"),
                               TAKES_TIME("until"))),
          NEEDS_TELEMETRY, api_series },
        { ROUTE("GET", "/api/v1/episodes"), NEEDS_REGISTRY, api_all_episodes },
        { ROUTE("GET", "/api/v1/episodes/NAME"), NEEDS_REGISTRY, api_episode },
        { ROUTE("GET", "/"), NEEDS_LEADER, api_page_index },
        { ROUTE("GET", "/page/NAME"), NEEDS_NOTHING, api_page_file },
        { ROUTE("GET", "/metrics"), NEEDS_NOTHING, api_metrics },
        { ROUTE("GET", "/healthz"), NEEDS_NOTHING, api_health },
};
static const struct http_route_table table = ROUTE_TABLE(routes);

/* True: the reply is complete. */
static bool lacks_what_it_needs(const struct api *a, const struct api_route *route,
                                const struct http_request *q, struct http_reply *reply) {
        if (route->needs == NEEDS_TELEMETRY) {
                if (!a->telemetry)
                        api_no_telemetry(a, reply);
                return !a->telemetry;
        }
        if (route->needs == NEEDS_NOTHING)
                return false;
        if (a->registry && !registry_leads(a->registry)) {
                api_redirect_to_leader(a, q, reply);
                return true;
        }
        if (route->needs == NEEDS_LEADER || a->registry)
                return false;
        api_reply_error(reply, 404, "no registry is kept here",
                        "ask the collector that Endpoint= of [Registry] names on the hosts");
        return true;
}

/*
 * Whether a page of another site may have sent this call. A browser tells the Origin of a page that calls
 * another site; a page whose own name was bound to our address has that name as Host; and no page can set a
 * header Sec-…, which tpuctl does. A certificate is proof enough.
 */
static bool may_be_a_foreign_page(const struct http_request *q) {
        const char *host = http_header(q, "Host"), *origin = http_header(q, "Origin");

        if (*q->caller->name || http_header(q, HTTP_NO_PAGE))
                return false;
        if (!http_is_called_by_address(q))
                return true;
        return origin && !(startswith(origin, "http://") && streq(origin + strlen("http://"), host));
}

static void make_call(const struct api *a, const struct api_route *route, const struct http_request *q,
                      struct routed *routed, struct http_reply *reply) {
        const char *wrong;

        if (lacks_what_it_needs(a, route, q, reply))
                return;
        (void) api_user(a, q, &wrong);
        if (wrong) {
                api_reply_error(reply, 400, wrong,
                                "set the header that ProxyUserHeader= of the collector names once, in the "
                                "proxy, and drop what the browser sends of it");
                if (!http_reads(q))
                        api_acted(a, q, reply, wrong);
        } else if (!http_reads(q) && !q->caller->acts) {
                api_reply_error(reply, 403,
                                q->caller->proxy ? "a proxy's users may read, not act" :
                                                   "this certificate may read, not act",
                                "use a certificate that AllowActors= of the collector names");
                api_acted(a, q, reply, "refused: no right to act");
        } else if (!http_reads(q) && may_be_a_foreign_page(q)) {
                api_reply_error(reply, 403, "without TLS a page of another site could have sent this call",
                                "call the collector by its address, or by tpuctl, or with the header "
                                HTTP_NO_PAGE);
                api_acted(a, q, reply, "refused: perhaps a page of another site");
        } else if (q->too_large || q->no_room || (q->len > 0 && !streq(q->method, "POST")))
                api_reply_error(reply, 413, "too much is sent",
                                "an intent is at most 256 KiB; other calls take no body");
        else if (route->needs == NEEDS_REGISTRY && strlen(routed->part[0]) >= API_NAME_MAX)
                routes_refuse(&table, q, "", reply);
        else if (routes_check_arguments(q, routed, reply))
                route->call(a, q, reply);
        else if (!http_reads(q))
                api_acted(a, q, reply, routed->arguments.why);
}

void api_handle(const struct http_request *q, struct http_reply *reply, void *userdata) {
        struct http_request known = *q;
        const struct http_route *route;
        char allow[HTTP_ALLOW_MAX];
        struct routed routed = { 0 };

        known.routed = &routed;
        route = routes_find(&table, q, &routed, allow);
        if (q->denied && !(route && streq(route->path, "/healthz")))
                api_reply_error(reply, 403, q->denied,
                                "use a certificate that AllowReaders= of the collector names");
        else if (!route)
                routes_refuse(&table, q, allow, reply);
        else
                make_call(userdata, (const struct api_route *) (const void *) route, &known, &routed, reply);
}
