/* SPDX-License-Identifier: Apache-2.0 */
#include "api_json.h"
#include "api_registry.h"
#include "gate.h"

#define HOSTS_PATH "/api/v1/hosts/"

enum route {
        ROUTE_HOSTS,
        ROUTE_SLICES,
        ROUTE_EVENTS,
        ROUTE_SERIES,
        ROUTE_METRICS,
        ROUTE_HEALTH,
        ROUTE_HOST,
        _ROUTE_MAX
};

struct route_def {
        const char *path;
        unsigned parameters;
        int64_t limit_max;
};

static const struct route_def routes[_ROUTE_MAX] = {
        [ROUTE_HOSTS] = { "/api/v1/hosts",
                          QUERY_BIT(QUERY_HOST) | QUERY_BIT(QUERY_SLICE) | QUERY_BIT(QUERY_STATE) |
                                  QUERY_BIT(QUERY_LIMIT) | QUERY_BIT(QUERY_OFFSET),
                          API_HOSTS_MAX },
        [ROUTE_SLICES] = { "/api/v1/slices", 0, 0 },
        [ROUTE_EVENTS] = { "/api/v1/events",
                           QUERY_BIT(QUERY_HOST) | QUERY_BIT(QUERY_SLICE) | QUERY_BIT(QUERY_NAME) |
                                   QUERY_BIT(QUERY_SINCE) | QUERY_BIT(QUERY_LIMIT) | QUERY_BIT(QUERY_WAIT) |
                                   QUERY_BIT(QUERY_FROM),
                           API_EVENTS_MAX },
        [ROUTE_SERIES] = { "/api/v1/series",
                           QUERY_BIT(QUERY_HOST) | QUERY_BIT(QUERY_NAME) | QUERY_BIT(QUERY_LIMIT) |
                                   QUERY_BIT(QUERY_FROM) | QUERY_BIT(QUERY_UNTIL),
                           API_POINTS_MAX },
        [ROUTE_METRICS] = { "/metrics", 0, 0 },
        [ROUTE_HEALTH] = { "/healthz", 0, 0 },
        [ROUTE_HOST] = { HOSTS_PATH "NAME", 0, 0 },
};

static enum route find_route(const char *path) {
        for (enum route r = 0; r < ROUTE_HOST; r++)
                if (streq(path, routes[r].path))
                        return r;
        return startswith(path, HOSTS_PATH) && path[strlen(HOSTS_PATH)] ? ROUTE_HOST : _ROUTE_MAX;
}

static void health(struct http_reply *reply) {
        reply->status = 200;
        reply->content_type = "text/plain; charset=utf-8";
        reply->body = strdup("ok\n");
        reply->len = reply->body ? 3 : 0;
}

static void answer(const struct api *a, enum route route, const struct http_request *q,
                   const struct query *query, struct http_reply *reply) {
        if (!a->telemetry && (route == ROUTE_EVENTS || route == ROUTE_SERIES)) {
                api_no_telemetry(a, reply);
                return;
        }
        switch (route) {
        case ROUTE_HOSTS:
                api_hosts(a, query, reply);
                break;
        case ROUTE_SLICES:
                api_slices(a, reply);
                break;
        case ROUTE_EVENTS:
                api_events(a, query, q->call, reply);
                break;
        case ROUTE_SERIES:
                api_series(a, query, reply);
                break;
        case ROUTE_METRICS:
                api_metrics(a, http_header(q, "Accept"), reply);
                break;
        case ROUTE_HEALTH:
                health(reply);
                break;
        case ROUTE_HOST:
                api_host(a, q->path + strlen(HOSTS_PATH), reply);
                break;
        case _ROUTE_MAX:
                break;
        }
}

void api_handle(const struct http_request *q, struct http_reply *reply, void *userdata) {
        const struct api *a = userdata;
        enum route route = find_route(q->path);
        char why[QUERY_WHY_MAX];
        struct query query;

        if (q->denied && route != ROUTE_HEALTH)
                api_reply_error(reply, 403, q->denied,
                                "use a certificate that AllowReaders= of the collector names");
        else if (gate_handle(a, q, reply))
                return;
        else if (route != ROUTE_HEALTH && api_registry_handle(a, q, reply))
                return;
        else if (route == _ROUTE_MAX)
                api_reply_error(
                        reply, 404, "there is no such path",
                        "there are /api/v1/hosts, /api/v1/hosts/NAME, /api/v1/slices, /api/v1/events, "
                        "/api/v1/series, " API_REGISTRY_PATHS ", /metrics, /healthz");
        else if (!streq(q->method, "GET") && !streq(q->method, "HEAD")) {
                api_reply_error(reply, 405, "this path is for reading only", "use GET");
                reply->allow = "GET, HEAD";
        } else if (q->too_large || q->no_room || q->len > 0)
                api_reply_error(reply, 413, "a GET takes no body", "leave it out");
        else if (query_parse(q, routes[route].parameters, routes[route].limit_max, &query, why) < 0)
                api_reply_error(reply, 400, why, "see docs/api.md");
        else
                answer(a, route, q, &query, reply);
}
