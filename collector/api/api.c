/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls there are (docs/api.md, docs/openapi-collector.yaml), what each takes, and what it needs. */
#include <math.h>

#include "api_calls.h"
#include "http_routes.h"

/* --- Answers --------------------------------------------------------------------------------------- */

void api_reply_result(struct http_reply *reply, const struct api *a, int r, json_t *v) {
        if (r == 0) {
                api_reply(reply, 200, v);
                return;
        }
        json_decref(v);
        api_reply_error(reply, 503, r == -ENOMEM ? "out of memory" : store_error(a->store),
                        "see the journal of tpu-collectord, and try again");
        reply->retry_after = 5;
        damage_handle(a->damage, r);
}

json_t *api_text(const char *text) {
        return text ? json_string(text) : json_null();
}

json_t *api_number(int64_t n) {
        return n < 0 ? json_null() : json_integer(n);
}

json_t *api_real(double d) {
        return isfinite(d) ? json_real(d) : json_null();
}

json_t *api_value(bool is_int, int64_t i, double d) {
        return is_int ? json_integer(i) : api_real(d);
}

json_t *api_time(usec_t t) {
        char buf[CLOCK_TEXT_MAX];

        return json_string(clock_text(t, buf));
}

json_t *api_stored(const char *text) {
        json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);

        return v ?: json_null();
}

void api_no_telemetry(const struct api *a, struct http_reply *reply) {
        char error[320];

        (void) snprintf(error, sizeof(error), "telemetry is not kept here%s%.255s",
                        *a->elsewhere ? ": it goes to " : "", a->elsewhere);
        api_reply(reply, 404,
                  json_pack("{s:s, s:s, s:s}", "error", error, "remedy",
                            "ask there for events, lines and series", "telemetry", a->elsewhere));
}

/* --- Where another collector leads ----------------------------------------------------------------- */

static void print_escaped(FILE *f, const char *text, const char *as_they_are) {
        for (; *text; text++)
                if ((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                    (*text >= '0' && *text <= '9') || strchr(as_they_are, *text))
                        fputc(*text, f);
                else
                        fprintf(f, "%%%02X", (unsigned char) *text);
}

struct printed {
        FILE *f;
        char between;
};

static int print_parameter(const char *key, const char *value, void *userdata) {
        struct printed *p = userdata;

        fputc(p->between, p->f);
        print_escaped(p->f, key, "-._~");
        fputc('=', p->f);
        print_escaped(p->f, value, "-._~:/");
        p->between = '&';
        return 0;
}

/* NULL: out of memory. */
static char *same_at(const char *url, const struct http_request *q) {
        char *text = NULL;
        size_t size, n = strlen(url);
        struct printed p = { .f = open_memstream(&text, &size), .between = '?' };

        if (!p.f)
                return NULL;
        while (n > 0 && url[n - 1] == '/')
                n--;
        fprintf(p.f, "%.*s", (int) n, url);
        print_escaped(p.f, q->path, "-._~/:@");
        (void) http_query(q, print_parameter, &p);
        if (memstream_close(p.f, &text))
                return text;
        free(text);
        return NULL;
}

/* Another collector leads: 307 to the same URL there; nobody does: 503. */
static void redirect_to_leader(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        const char *url = registry_control(a->registry)->people_url;
        char *location = *url ? same_at(url, q) : NULL;

        if (!location) {
                api_reply_error(reply, 503, "no collector leads",
                                "try again; see /usr/share/doc/tpu-collector/operations.md, No leader");
                reply->retry_after = 1;
                return;
        }
        api_reply(reply, 307,
                  json_pack("{s:s, s:s}", "error", "this collector does not lead", "leader", url));
        if (reply->status == 307)
                reply->location = location;
        else
                free(location);
}

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
        void (*call)(const struct api *a, const struct http_request *q, struct http_reply *reply);
};

static void api_health(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        (void) a;
        (void) q;
        reply->status = 200;
        reply->content_type = "text/plain; charset=utf-8";
        reply->body = strdup("ok\n");
        reply->len = reply->body ? 3 : 0;
}

#define TEXT(name) TAKES_TEXT(name, 0)
#define LIMIT(most) TAKES_NUMBER("limit", 1, most)
#define COUNT(name) TAKES_NUMBER(name, 0, INT64_MAX)
#define WAIT TAKES_NUMBER("wait", 0, WAIT_MAX)
#define REASON TAKES_TEXT("reason", API_REASON_MAX)

static const struct argument order_arguments[] = { REASON, TAKES_TIME("until"), TAKES_END };

static const struct api_route routes[] = {
        { ROUTE_WITH("GET", "/api/v1/hosts",
                     ARGUMENTS(TEXT("host"), TEXT("slice"), TEXT("state"), LIMIT(API_HOSTS_MAX),
                               COUNT("offset"))),
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
        { ROUTE("DELETE", "/api/v1/slices/NAME/slots/WORKER"), NEEDS_REGISTRY, api_release_slot },
        { ROUTE_WITH("POST", "/api/v1/slices/NAME/capture", ARGUMENTS(REASON, TEXT("run"))), NEEDS_REGISTRY,
          api_capture },
        { ROUTE_WITH("GET", "/api/v1/slices/NAME/diagnosis", ARGUMENTS(TEXT("episode"))), NEEDS_REGISTRY,
          api_diagnosis },
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
                redirect_to_leader(a, q, reply);
                return true;
        }
        if (route->needs == NEEDS_LEADER || a->registry)
                return false;
        api_reply_error(reply, 404, "no registry is kept here",
                        "ask the collector that Endpoint= of [Registry] names on the hosts");
        return true;
}

static void make_call(const struct api *a, const struct api_route *route, const struct http_request *q,
                      struct routed *routed, struct http_reply *reply) {
        if (lacks_what_it_needs(a, route, q, reply))
                return;
        if (!http_reads(q) && !q->caller->acts) {
                api_reply_error(reply, 403, "this certificate may read, not act",
                                "use a certificate that AllowActors= of the collector names");
                api_acted(a, q, reply, "refused: no right to act");
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
