/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about hosts: the list, one with its metrics, slices, the past of a metric. */
#include <math.h>

#include "api_calls.h"
#include "events.h"
#include "json_text.h"
#include "suspects.h"

struct listing {
        json_t *list;
        const struct api *api;
};

void api_hosts(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        const struct fleet_filter f = { .name = route_text(q, "host"),
                                        .slice = route_text(q, "slice"),
                                        .state = route_text(q, "state") };
        size_t limit = (size_t) route_number(q, "limit", API_HOSTS_MAX),
               offset = (size_t) route_number(q, "offset", 0), n = 0;
        json_auto_t *all = NULL, *page = json_array();
        int r = page ? fleet_list(a, &f, &all) : -ENOMEM;

        if (r == 0 && json_array_size(all) == 0 &&
            ((f.slice && !api_knows(a, KNOWN_SLICE, f.slice, reply)) ||
             (f.name && !api_knows(a, KNOWN_HOST, f.name, reply))))
                return;
        for (size_t i = offset; r == 0 && n < limit && i < json_array_size(all); i++, n++)
                r = json_array_append(page, json_array_get(all, i));
        api_reply_result(reply, a, r,
                         json_pack("{s:O, s:o}", "hosts", page, "next",
                                   api_number(n == limit ? (int64_t) (offset + n) : -1)));
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

static int on_host(const struct store_host *h, void *userdata) {
        *(int64_t *) userdata = h->id;
        return 1;
}

void api_host(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        const char *name = route_part(q, 0);
        struct listing metrics = { .list = NULL };
        json_t *all = NULL, *host;
        int64_t id = -1;
        int r;

        if (!api_knows(a, KNOWN_HOST, name, reply))
                return;
        r = fleet_list(a, &(struct fleet_filter){ .name = name }, &all);
        host = json_incref(json_array_get(all, 0));
        json_decref(all);
        metrics.list = json_array();
        if (r == 0 && a->telemetry)
                r = MIN(store_list_hosts(a->store, name, on_host, &id), 0);
        if (r == 0 && id >= 0)
                r = store_list_metrics(a->store, id, on_metric, &metrics);
        if (json_object_set_new(host, "metrics", metrics.list) < 0)
                r = r < 0 ? r : -ENOMEM;
        api_reply_result(reply, a, r, host);
}

/* --- Slices ---------------------------------------------------------------------------------------- */

/* n hosts of one slice, from the list. Takes nothing over. */
static int add_slice(struct listing *l, const char *name, const json_t *hosts, size_t from, size_t to) {
        struct fleet_sum s = { .hosts = 0 };

        for (size_t i = from; i < to; i++)
                fleet_sum_add(&s, json_array_get(hosts, i));
        return json_array_append_new(
                l->list, json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o}", "name", api_text(name),
                                   "hosts", (json_int_t) s.hosts, "ready", (json_int_t) s.ready, "degraded",
                                   (json_int_t) s.degraded, "unfit", (json_int_t) s.unfit, "unknown",
                                   (json_int_t) s.unknown, "silent", (json_int_t) s.silent,
                                   "oldest_age_seconds", s.oldest, "gang", api_slice_gang(l->api, name)));
}

void api_slices(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        struct listing l = { .list = json_array(), .api = a };
        json_auto_t *hosts = NULL;
        int r = l.list ? fleet_list(a, &(struct fleet_filter){ .name = NULL }, &hosts) : -ENOMEM;

        (void) q;
        for (size_t from = 0, to; r == 0 && from < json_array_size(hosts); from = to) {
                const json_t *slice = json_object_get(json_array_get(hosts, from), "slice");

                to = from;
                while (to < json_array_size(hosts) &&
                       json_equal(json_object_get(json_array_get(hosts, to), "slice"), slice))
                        to++;
                r = add_slice(&l, json_string_value(slice), hosts, from, to);
        }
        api_reply_result(reply, a, r, json_pack("{s:o}", "slices", l.list));
}

/* --- Series ---------------------------------------------------------------------------------------- */

static int on_past(const struct store_past *p, void *userdata) {
        struct listing *l = userdata;
        json_t *points = json_object_get(json_array_get(l->list, json_array_size(l->list) - 1), "points");

        if (!p->is_point)
                return json_array_append_new(l->list, json_pack("{s:o, s:s, s:s, s:[]}", "attributes",
                                                                api_stored(p->attributes), "service",
                                                                p->service, "unit", p->unit, "points"));
        return json_array_append_new(points, json_pack("{s:o, s:o}", "time", api_time(p->time), "value",
                                                       api_value(p->is_int, p->i, p->d)));
}

void api_series(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        struct listing l = { .list = json_array() };
        usec_t now = clock_real(a->clock);
        struct store_series_filter f = {
                .host = route_text(q, "host"),
                .name = route_text(q, "name"),
                .until = (usec_t) route_number(q, "until", (int64_t) now + 1),
                .limit = (size_t) route_number(q, "limit", API_POINTS_MAX),
        };
        bool cut = false;
        int r;

        f.since = (usec_t) route_number(q, "from", (int64_t) (f.until - MIN(f.until, API_SERIES_SPAN)));
        if (!f.host || !f.name) {
                json_decref(l.list);
                api_reply_error(reply, 400, "host and name are needed",
                                "see /usr/share/doc/tpu-collector/api.md: GET /api/v1/hosts/NAME lists "
                                "metrics");
                return;
        }
        r = l.list ? store_list_past(a->store, &f, on_past, &l, &cut) : -ENOMEM;
        if (r == -ENOENT && !api_knows(a, KNOWN_HOST, f.host, reply)) {
                json_decref(l.list);
                return;
        }
        r = r == -ENOENT ? 0 : r; /* a member that pushes nothing here */
        api_reply_result(reply, a, r,
                         json_pack("{s:s, s:s, s:o, s:o, s:b, s:o}", "host", f.host, "name", f.name, "from",
                                   api_time(f.since), "until", api_time(f.until), "truncated", (int) cut,
                                   "series", l.list));
}

/* --- Suspects --------------------------------------------------------------------------------------- */

/* GET /api/v1/suspects: hosts that fail again and again (suspects.h), with what was reported of each. */
#define LISTED_MAX 200

struct last {
        int64_t event;
        char sentence[EVENT_SENTENCE_MAX];
};

static int on_last(const struct store_event_row *row, void *userdata) {
        struct last *l = userdata;
        json_auto_t *fields = row->id == l->event ?
                                      event_fields_of(row->event.body, row->event.attributes) :
                                      NULL;

        if (fields)
                (void) event_sentence_of(row->event.name, fields, l->sentence);
        return 0;
}

/* The sentence of one that is kept no more is empty. */
static int add_report(const struct api *a, const struct suspect_report *report, json_t **list) {
        struct last l = { .event = report->event };
        int r = store_list_events(a->store,
                                  &(struct store_event_filter){ .name = report->name,
                                                                .since = report->event - 1,
                                                                .limit = 1 },
                                  on_last, &l);

        if (r < 0)
                return r;
        *list = json_list_add(*list, json_pack("{s:s, s:i, s:o, s:s}", "name", report->name, "count",
                                               (int) report->count, "last", api_time(report->last),
                                               "sentence", l.sentence));
        return *list ? 0 : -ENOMEM;
}

static int add_suspect(const struct api *a, const struct suspect_host *q, json_t **list) {
        json_t *reports = json_array();
        int r = reports ? 0 : -ENOMEM;

        for (size_t i = 0; i < q->n_reports && r >= 0; i++)
                r = add_report(a, &q->reports[i], &reports);
        if (r < 0) {
                json_decref(reports);
                return r;
        }
        *list = json_list_add(*list, json_pack("{s:s, s:o, s:o, s:o, s:i, s:o}", "host", q->host, "slice",
                                               api_text(q->slice), "worker_id", api_number(q->worker),
                                               "score", json_real(round(q->score * 100) / 100), "runs",
                                               (int) q->runs, "reports", reports));
        return *list ? 0 : -ENOMEM;
}

void api_suspects(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        _cleanup_free_ struct suspect_host *suspects = NULL;
        usec_t now = clock_real(a->clock);
        json_t *list = json_array();
        size_t n = 0;
        int more = suspects_read(a->suspects, a->store, now), r = MIN(more, 0);

        (void) q;
        if (r >= 0)
                r = suspects_list(a->suspects, now, &suspects, &n);
        for (size_t i = 0; i < MIN(n, (size_t) LISTED_MAX) && r >= 0; i++)
                r = add_suspect(a, &suspects[i], &list);
        if (r >= 0)
                list = json_pack("{s:o, s:b}", "suspects", list, "cut", more > 0 || n > LISTED_MAX);
        if (r >= 0 && !list)
                r = -ENOMEM;
        api_reply_result(reply, a, r, list);
}
