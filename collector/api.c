/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>

#include "api.h"
#include "query.h"

#define JSON_TYPE "application/json"
#define HOSTS_PATH "/api/v1/hosts/"

/* --- Answers --------------------------------------------------------------------------------- */

/* Takes v over. */
static void reply_json(struct http_reply *reply, unsigned status, json_t *v) {
        char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;

        json_decref(v);
        reply->content_type = JSON_TYPE;
        reply->status = text ? status : 503;
        reply->body = text;
        reply->len = text ? strlen(text) : 0;
        if (!text)
                reply->retry_after = 1; /* out of memory: a small text would fail, too */
}

static void reply_error(struct http_reply *reply, unsigned status, const char *error, const char *remedy) {
        json_t *v = json_pack("{s:s, s:s}", "error", error, "remedy", remedy);

        if (!v) /* the text names what came, and that is no UTF-8 */
                v = json_pack("{s:s, s:s}", "error", "the request is not UTF-8", "remedy", remedy);
        reply_json(reply, status, v);
}

static void reply_result(struct http_reply *reply, const struct api *a, int r, json_t *v) {
        if (r == 0) {
                reply_json(reply, 200, v);
                return;
        }
        json_decref(v);
        reply_error(reply, 503, r == -ENOMEM ? "out of memory" : store_error(a->store),
                    "see the journal of tpu-collectord, and try again");
        reply->retry_after = 5;
        damage_look(a->damage, r);
}

static json_t *text_or_null(const char *text) {
        return text ? json_string(text) : json_null();
}

static json_t *number_or_null(int64_t n) {
        return n < 0 ? json_null() : json_integer(n);
}

static json_t *time_json(usec_t t) {
        char buf[CLOCK_TEXT_MAX];

        return json_string(clock_text(t, buf));
}

/* A stored JSON text; what SQLite was given by another program may be anything. */
static json_t *stored_json(const char *text) {
        json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);

        return v ?: json_null();
}

/* --- Hosts ----------------------------------------------------------------------------------- */

struct listing {
        json_t *list;
        usec_t now;
        int64_t host; /* id of the last one */
        size_t bytes;
        int64_t last; /* id of the last event */
        bool newest_first;
};

static int on_host(const struct store_host *h, void *userdata) {
        struct listing *l = userdata;
        double age = l->now > h->last_seen ? (double) (l->now - h->last_seen) / (double) USEC_PER_SEC : 0;

        l->host = h->id;
        return json_array_append_new(
                l->list,
                json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:o, s:o}", "name",
                          h->name, "slice", text_or_null(h->slice), "worker_id",
                          number_or_null(h->worker_id), "accelerator_type",
                          text_or_null(h->accelerator_type), "state", text_or_null(h->state), "reasons",
                          text_or_null(h->reasons), "version", text_or_null(h->version), "boot_id",
                          text_or_null(h->boot_id), "first_seen", time_json(h->first_seen), "last_seen",
                          time_json(h->last_seen), "age_seconds", age, "job", text_or_null(h->job), "step",
                          number_or_null(h->step)));
}

static void get_hosts(const struct api *a, struct http_reply *reply) {
        struct listing l = { .list = json_array(), .now = clock_real(a->clock) };
        int r;

        r = l.list ? store_list_hosts(a->store, &(struct store_host_filter) { .limit = -1 }, on_host, &l) : -ENOMEM;
        reply_result(reply, a, r, json_pack("{s:o}", "hosts", l.list));
}

static json_t *value_json(const struct store_value *v) {
        json_t *number = NULL;

        if (v->metric.is_int)
                number = json_integer(v->metric.i);
        else
                number = json_real(v->metric.d); /* NULL of NaN and infinities */
        return number ?: json_null();
}

static int on_metric(const struct store_value *v, void *userdata) {
        struct listing *l = userdata;

        return json_array_append_new(l->list, json_pack("{s:s, s:s, s:o, s:o, s:o, s:s}", "name",
                                                        v->metric.name, "unit", v->metric.unit, "attributes",
                                                        stored_json(v->metric.attributes), "value",
                                                        value_json(v), "time", time_json(v->metric.time),
                                                        "service", v->metric.service));
}

static void get_host(const struct api *a, const char *name, struct http_reply *reply) {
        struct listing hosts = { .list = json_array(), .now = clock_real(a->clock) },
                       metrics = { .list = json_array() };
        json_t *host;
        int r;

        r = hosts.list && metrics.list ? store_list_hosts(a->store, &(struct store_host_filter) { .name = name, .limit = 1 }, on_host, &hosts) : -ENOMEM;
        host = json_incref(json_array_get(hosts.list, 0));
        if (r == 0 && host)
                r = store_list_metrics(a->store, hosts.host, on_metric, &metrics);
        json_decref(hosts.list);
        if (r == 0 && !host) {
                char error[256];

                json_decref(metrics.list);
                (void) snprintf(error, sizeof(error), "no host %.200s has ever been heard", name);
                reply_error(reply, 404, error, "GET /api/v1/hosts lists those that have");
                return;
        }
        if (json_object_set_new(host, "metrics", metrics.list) < 0)
                r = r < 0 ? r : -ENOMEM;
        reply_result(reply, a, r, host);
}

/* --- Events ---------------------------------------------------------------------------------- */

static const char *severity_name(unsigned severity) {
        static const char *const names[] = { "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL" };

        return severity >= 1 && severity <= 24 ? names[(severity - 1) / 4] : "";
}

static int on_event(const struct store_event_row *row, void *userdata) {
        struct listing *l = userdata;
        const struct store_event *e = &row->event;
        json_t *v;

        l->bytes += strlen(e->body) + strlen(e->attributes);
        if (l->bytes > API_EVENTS_BYTES && json_array_size(l->list) > 0)
                return 1;
        v = json_pack("{s:I, s:s, s:o, s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:s}", "id", (json_int_t) row->id,
                      "host", row->host, "slice", text_or_null(row->slice), "worker_id",
                      number_or_null(row->worker_id), "time", time_json(e->time), "received",
                      time_json(e->received), "name", e->name, "severity", severity_name(e->severity),
                      "body", stored_json(e->body), "attributes", stored_json(e->attributes), "service",
                      e->service);
        l->last = MAX(l->last, row->id);
        return l->newest_first ? json_array_insert_new(l->list, 0, v) : json_array_append_new(l->list, v);
}

static void get_events(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        struct listing l = { 0 };
        struct store_event_filter filter;
        char why[QUERY_WHY_MAX];
        int r;

        if (query_events(q, &filter, why) < 0) {
                reply_error(reply, 400, why, "see docs/api.md");
                return;
        }
        l.newest_first = filter.since < 0;
        l.last = MAX(filter.since, 0);
        l.list = json_array();
        r = l.list ? store_list_events(a->store, &filter, on_event, &l) : -ENOMEM;
        reply_result(reply, a, r > 0 ? 0 : r,
                     json_pack("{s:o, s:I}", "events", l.list, "next", (json_int_t) l.last));
}

/* --- Routes ---------------------------------------------------------------------------------- */

static void get_health(struct http_reply *reply) {
        reply->status = 200;
        reply->content_type = "text/plain; charset=utf-8";
        reply->body = strdup("ok\n");
        reply->len = reply->body ? 3 : 0;
}

static void get_counters(const struct api *a, struct http_reply *reply) {
        char *text;
        size_t len;

        if (counters_text(a->counters, &text, &len) < 0) {
                reply_result(reply, a, -ENOMEM, NULL);
                return;
        }
        *reply = (struct http_reply) { .status = 200,
                                      .content_type = "text/plain; version=0.0.4; charset=utf-8",
                                      .body = text,
                                      .len = len };
}

void api_handle(const struct http_request *q, struct http_reply *reply, void *userdata) {
        const struct api *a = userdata;
        bool one_host = startswith(q->path, HOSTS_PATH) && q->path[strlen(HOSTS_PATH)];
        bool events = streq(q->path, "/api/v1/events"), hosts = streq(q->path, "/api/v1/hosts");
        bool health = streq(q->path, "/healthz"), counters = streq(q->path, "/metrics");
        char why[QUERY_WHY_MAX];

        if (!one_host && !events && !hosts && !health && !counters)
                reply_error(
                        reply, 404, "there is no such path",
                        "there are /api/v1/hosts, /api/v1/hosts/NAME, /api/v1/events, /metrics, /healthz");
        else if (!streq(q->method, "GET") && !streq(q->method, "HEAD")) {
                reply_error(reply, 405, "this path is for reading only", "use GET");
                reply->allow = "GET, HEAD";
        } else if (q->too_large || q->no_room)
                reply_error(reply, 413, "a GET takes no body", "leave it out");
        else if (events)
                get_events(a, q, reply);
        else if (query_none(q, why) < 0)
                reply_error(reply, 400, why, "leave it out");
        else if (hosts)
                get_hosts(a, reply);
        else if (one_host)
                get_host(a, q->path + strlen(HOSTS_PATH), reply);
        else if (health)
                get_health(reply);
        else
                get_counters(a, reply);
}
