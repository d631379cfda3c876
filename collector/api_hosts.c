/* SPDX-License-Identifier: Apache-2.0 */
#include "api_json.h"
#include "api_registry.h"

struct listing {
        json_t *list;
        usec_t now;
        int64_t host; /* id of the last one */
        const struct api *api;
        json_t *seen; /* names of slices, as keys */
};

static double seconds_between(usec_t early, usec_t late) {
        return late > early ? (double) (late - early) / (double) USEC_PER_SEC : 0;
}

static int on_host(const struct store_host *h, void *userdata) {
        struct listing *l = userdata;

        l->host = h->id;
        return json_array_append_new(
                l->list,
                json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:o, s:o, s:o}", "name",
                          h->name, "slice", api_text(h->slice), "worker_id", api_number(h->worker_id),
                          "accelerator_type", api_text(h->accelerator_type), "state", api_text(h->state),
                          "reasons", api_text(h->reasons), "version", api_text(h->version), "boot_id",
                          api_text(h->boot_id), "first_seen", api_time(h->first_seen), "last_seen",
                          api_time(h->last_seen), "age_seconds", seconds_between(h->last_seen, l->now),
                          "lag_seconds",
                          h->newest ? json_real(seconds_between(h->newest, h->last_seen)) : json_null(),
                          "job", api_text(h->job), "step", api_number(h->step)));
}

void api_hosts(const struct api *a, const struct query *q, struct http_reply *reply) {
        struct store_host_filter f = {
                .name = q->text[QUERY_HOST],
                .slice = q->text[QUERY_SLICE],
                .state = q->text[QUERY_STATE],
                .limit = q->number[QUERY_LIMIT] > 0 ? q->number[QUERY_LIMIT] : API_HOSTS_MAX,
                .offset = MAX(q->number[QUERY_OFFSET], 0),
        };
        struct listing l = { .list = json_array(), .now = clock_real(a->clock) };
        int64_t n;
        int r;

        r = l.list ? store_list_hosts(a->store, &f, on_host, &l) : -ENOMEM;
        n = (int64_t) json_array_size(l.list);
        api_reply_result(reply, a, r,
                         json_pack("{s:o, s:o}", "hosts", l.list, "next",
                                   api_number(n == f.limit ? f.offset + n : -1)));
}

static int on_metric(const struct store_value *v, void *userdata) {
        struct listing *l = userdata;
        const struct store_metric *m = &v->metric;

        return json_array_append_new(l->list,
                                     json_pack("{s:s, s:s, s:o, s:o, s:o, s:s}", "name", m->name, "unit",
                                               m->unit, "attributes", api_stored(m->attributes), "value",
                                               api_value(m->is_int, m->i, m->d), "time", api_time(m->time),
                                               "service", m->service));
}

static void no_such_host(const char *name, struct http_reply *reply) {
        char error[256];

        (void) snprintf(error, sizeof(error), "no host %.200s has ever been heard", name);
        api_reply_error(reply, 404, error, "GET /api/v1/hosts lists those that have");
}

void api_host(const struct api *a, const char *name, struct http_reply *reply) {
        struct listing hosts = { .list = json_array(), .now = clock_real(a->clock) },
                       metrics = { .list = json_array() };
        json_t *host;
        int r;

        r = hosts.list && metrics.list
                    ? store_list_hosts(a->store, &(struct store_host_filter) { .name = name, .limit = 1 },
                                       on_host, &hosts)
                    : -ENOMEM;
        host = json_incref(json_array_get(hosts.list, 0));
        if (r == 0 && host)
                r = store_list_metrics(a->store, hosts.host, on_metric, &metrics);
        json_decref(hosts.list);
        if (r == 0 && !host) {
                json_decref(metrics.list);
                no_such_host(name, reply);
                return;
        }
        if (json_object_set_new(host, "metrics", metrics.list) < 0)
                r = r < 0 ? r : -ENOMEM;
        api_reply_result(reply, a, r, host);
}

static int on_slice(const struct store_slice *s, void *userdata) {
        struct listing *l = userdata;

        if (s->name && json_object_set_new(l->seen, s->name, json_true()) < 0)
                return -ENOMEM;
        return json_array_append_new(
                l->list, json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o}", "name", api_text(s->name),
                                   "hosts", (json_int_t) s->hosts, "ready", (json_int_t) s->ready,
                                   "degraded", (json_int_t) s->degraded, "unfit", (json_int_t) s->unfit,
                                   "unknown", (json_int_t) s->unknown, "silent", (json_int_t) s->silent,
                                   "oldest_age_seconds", seconds_between(s->oldest_seen, l->now), "gang",
                                   api_slice_gang(l->api, s->name)));
}

/* A slice of which only the registry knows: its hosts send nothing here. */
static void on_gang(const char *key, const json_t *value, void *userdata) {
        struct listing *l = userdata;
        const struct store_slice s = { .name = key + strlen("slice/"), .oldest_seen = l->now };

        (void) value;
        if (!json_object_get(l->seen, s.name))
                (void) on_slice(&s, l); /* out of memory: the answer is refused below */
}

void api_slices(const struct api *a, struct http_reply *reply) {
        struct listing l = { .list = json_array(), .seen = json_object(), .now = clock_real(a->clock), .api = a };
        usec_t silent = API_SILENT_SECONDS * USEC_PER_SEC;
        int r;

        r = l.list && l.seen ? store_list_slices(a->store, l.now > silent ? l.now - silent : 0, on_slice, &l)
                             : -ENOMEM;
        if (r == 0)
                registry_visit(a->registry, "slice/", on_gang, &l);
        json_decref(l.seen);
        api_reply_result(reply, a, r, json_pack("{s:o}", "slices", l.list));
}

/* --- Series ---------------------------------------------------------------------------------- */

static int on_past(const struct store_past *p, void *userdata) {
        struct listing *l = userdata;
        json_t *points = json_object_get(json_array_get(l->list, json_array_size(l->list) - 1), "points");

        if (!p->is_point)
                return json_array_append_new(l->list, json_pack("{s:o, s:s, s:s, s:[]}", "attributes",
                                                                api_stored(p->attributes), "service",
                                                                p->service, "unit", p->unit, "points"));
        if (p->n == 1)
                return json_array_append_new(points, json_pack("{s:o, s:o}", "time", api_time(p->time),
                                                               "value", api_value(p->is_int, p->i, p->d)));
        return json_array_append_new(
                points, json_pack("{s:o, s:o, s:I, s:o, s:o, s:o}", "time", api_time(p->time), "value",
                                  api_value(p->is_int, p->i, p->d), "n", (json_int_t) p->n, "min",
                                  api_real(p->min), "max", api_real(p->max), "mean", api_real(p->mean)));
}

void api_series(const struct api *a, const struct query *q, struct http_reply *reply) {
        struct listing l = { .list = json_array() };
        usec_t now = clock_real(a->clock);
        struct store_series_filter f = {
                .host = q->text[QUERY_HOST],
                .name = q->text[QUERY_NAME],
                .until = q->number[QUERY_UNTIL] >= 0 ? (usec_t) q->number[QUERY_UNTIL] : now + 1,
                .limit = q->number[QUERY_LIMIT] > 0 ? (size_t) q->number[QUERY_LIMIT] : API_POINTS_MAX,
        };
        bool cut = false;
        int r;

        f.since = q->number[QUERY_FROM] >= 0 ? (usec_t) q->number[QUERY_FROM]
                                             : f.until - MIN(f.until, API_SERIES_SPAN);
        if (!f.host || !f.name) {
                json_decref(l.list);
                api_reply_error(reply, 400, "host and name are needed",
                                "GET /api/v1/hosts/NAME lists the metrics of a host");
                return;
        }
        r = l.list ? store_list_past(a->store, &f, on_past, &l, &cut) : -ENOMEM;
        if (r == -ENOENT) {
                json_decref(l.list);
                no_such_host(f.host, reply);
                return;
        }
        api_reply_result(reply, a, r,
                         json_pack("{s:s, s:s, s:o, s:o, s:b, s:o}", "host", f.host, "name", f.name, "from",
                                   api_time(f.since), "until", api_time(f.until), "truncated", (int) cut,
                                   "series", l.list));
}
