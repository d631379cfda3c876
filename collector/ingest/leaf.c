/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "leaf.h"
#include "point_wire.h"
#include "text.h"
#include "value.h"
#include "unpack_wire.h"

#define FLAG_NO_RECORDED_VALUE 1 /* opentelemetry-proto, DataPointFlags */

/* One metric while its points are visited. */
struct metric {
        char name[INGEST_NAME_MAX], unit[INGEST_NAME_MAX];
        Otlp__KeyValue *const *attributes; /* of the point at hand */
        size_t n_attributes;
};

/* Unpacks after looking at it, depth messages deep; the message lives in the memory until its reset. */
static int unpack(struct walk *w, const ProtobufCMessageDescriptor *d, unsigned depth, const uint8_t *data,
                  size_t len, void *ret) {
        size_t at = (size_t) (data - w->start);
        ProtobufCMessage *m;
        int r;

        r = wire_check(d, data, len, depth);
        if (r == -ELOOP)
                return walk_fail(w, r, "%s at byte %zu: nested deeper than %d messages", d->short_name, at,
                                 INGEST_DEPTH_MAX);
        if (r < 0)
                return walk_fail(w, r, "%s at byte %zu is not well-formed", d->short_name, at);
        unpack_memory_reset(&w->memory);
        m = protobuf_c_message_unpack(d, &w->memory.allocator, len, data);
        if (!m && w->memory.exhausted)
                return walk_fail(w, -E2BIG, "%s at byte %zu has too many parts", d->short_name, at);
        if (!m)
                return walk_fail(w, -EBADMSG, "%s at byte %zu is not well-formed", d->short_name, at);
        *(ProtobufCMessage **) ret = m;
        return 0;
}

/* What a visitor said about one row. */
static int visited(struct walk *w, int r, const char *name) {
        if (r == -EDQUOT) {
                walk_reject(w, name, "no room for one more series");
                return 0;
        }
        if (r == 0)
                w->result->rows++;
        return r;
}

static int count_row(struct walk *w) {
        if (w->result->rows + w->result->rejected >= INGEST_ROWS_MAX)
                return walk_fail(w, -E2BIG, "more than %d points or events in one request", INGEST_ROWS_MAX);
        return 0;
}

static bool is_known(struct walk *w, const struct ingest_point *p) {
        return p->key_len > 0 && w->visitor->known && w->visitor->known(p, w->visitor->userdata);
}

static int visit_known(struct walk *w, const struct ingest_point *p) {
        return visited(w, w->visitor->point(p, w->visitor->userdata), p->name);
}

/* With its attributes, which are the metric's at hand. */
static int visit_whole(struct walk *w, const struct metric *m, struct ingest_point *p) {
        json_t *labels;
        _cleanup_free_ char *text = NULL;
        int r = 0;

        labels = value_list_to_json(m->attributes, m->n_attributes);
        text = labels ? json_dumps(labels, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        if (!text)
                r = -ENOMEM;
        else if (strlen(text) > INGEST_ATTRIBUTES_MAX)
                walk_reject(w, p->name, "its attributes are too long");
        else {
                p->attributes = text;
                p->labels = labels;
                r = visited(w, w->visitor->point(p, w->visitor->userdata), p->name);
                p->attributes = NULL; /* a histogram goes on with the same point */
                p->labels = NULL;
        }
        json_decref(labels);
        return r;
}

static int visit_point(struct walk *w, const struct metric *m, struct ingest_point *p) {
        int r;

        r = count_row(w);
        if (r < 0)
                return r;
        point_key_begin(&w->key, w->resource->service, p->name);
        p->key_len = point_key_end(&w->key, m->attributes, m->n_attributes);
        p->key = w->key.bytes;
        return is_known(w, p) ? visit_known(w, p) : visit_whole(w, m, p);
}

static int number_point(struct walk *w, struct metric *m, const Otlp__NumberDataPoint *n) {
        struct ingest_point p = { .name = m->name,
                                  .unit = m->unit,
                                  .time = n->time_unix_nano / NSEC_PER_USEC };

        if (n->flags & FLAG_NO_RECORDED_VALUE)
                return 0;
        m->attributes = n->attributes;
        m->n_attributes = n->n_attributes;
        switch ((int) n->value_case) { /* protobuf-c's padding member has another name before 1.4 */
        case OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE:
                p.d = n->as_double;
                return visit_point(w, m, &p);
        case OTLP__NUMBER_DATA_POINT__VALUE_AS_INT:
                p.is_int = true;
                p.i = n->as_int;
                p.d = (double) n->as_int;
                return visit_point(w, m, &p);
        default: /* not set */
                break;
        }
        walk_reject(w, m->name, "a point without a value");
        return count_row(w);
}

static int histogram_point(struct walk *w, struct metric *m, const Otlp__HistogramDataPoint *h) {
        char name[INGEST_NAME_MAX + 8];
        struct ingest_point p = { .name = name, .unit = "", .time = h->time_unix_nano / NSEC_PER_USEC };
        int r;

        if (h->flags & FLAG_NO_RECORDED_VALUE)
                return 0;
        m->attributes = h->attributes;
        m->n_attributes = h->n_attributes;
        p.is_int = true;
        p.i = (int64_t) MIN(h->count, (uint64_t) INT64_MAX);
        p.d = (double) p.i;
        (void) snprintf(name, sizeof(name), "%s.count", m->name);
        r = visit_point(w, m, &p);
        if (r < 0 || h->sum__case != OTLP__HISTOGRAM_DATA_POINT__SUM__SUM)
                return r;
        p.is_int = false;
        p.d = h->sum;
        p.unit = m->unit;
        (void) snprintf(name, sizeof(name), "%s.sum", m->name);
        return visit_point(w, m, &p);
}

static int number_points(struct walk *w, struct metric *m, Otlp__NumberDataPoint *const *points, size_t n) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < n; i++)
                r = number_point(w, m, points[i]);
        return r;
}

/* --- The usual metric -------------------------------------------------------------------------- */

#define POINT_DEPTH_MAX (INGEST_DEPTH_MAX - 2) /* a point is in a gauge or sum, that in the metric */

/* A point of which more is wanted than time and value (its key is in w, of key_len), or one that is not
 * plain (0). */
static int whole_point(struct walk *w, struct metric *m, const struct wire_field *f, size_t key_len) {
        Otlp__NumberDataPoint *n = NULL;
        struct ingest_point p;
        int r;

        r = unpack(w, &otlp__number_data_point__descriptor, POINT_DEPTH_MAX, f->data, f->len, &n);
        if (r < 0)
                return r;
        if (key_len == 0)
                return number_point(w, m, n);
        p = (struct ingest_point){
                .name = m->name, .unit = m->unit, .key = w->key.bytes, .key_len = key_len
        };
        p.is_int = n->value_case == OTLP__NUMBER_DATA_POINT__VALUE_AS_INT;
        p.i = p.is_int ? n->as_int : 0;
        p.d = p.is_int ? (double) n->as_int : n->as_double;
        p.time = n->time_unix_nano / NSEC_PER_USEC;
        m->attributes = n->attributes;
        m->n_attributes = n->n_attributes;
        return visit_whole(w, m, &p);
}

static int plain_point(struct walk *w, struct metric *m, const struct wire_field *f) {
        struct ingest_point p = { .name = m->name, .unit = m->unit, .key = w->key.bytes };
        struct number n;
        int r;

        point_key_begin(&w->key, w->resource->service, m->name);
        if (!number_parse(f->data, f->len, &w->key, &n) || w->key.full || !n.is_set || n.unrecorded)
                return whole_point(w, m, f, 0);
        r = count_row(w);
        if (r < 0)
                return r;
        p.key_len = w->key.len;
        p.is_int = n.is_int;
        p.i = n.i;
        p.d = n.d;
        p.time = n.time_nsec / NSEC_PER_USEC;
        return is_known(w, &p) ? visit_known(w, &p) : whole_point(w, m, f, p.key_len);
}

static void take_text(char *dest, const uint8_t *text, size_t len) {
        char copy[METRIC_TEXT_MAX];

        if (len > 0)
                memcpy(copy, text, len);
        copy[len] = '\0';
        text_name(dest, INGEST_NAME_MAX, copy);
}

static int plain_metric(struct walk *w, struct metric_parts *parts) {
        struct metric m = { 0 };
        struct wire_field f;
        int r;

        take_text(m.name, parts->name, parts->name_len);
        take_text(m.unit, parts->unit, parts->unit_len);
        while ((r = metric_next_point(parts, &f)) > 0) {
                r = plain_point(w, &m, &f);
                if (r < 0)
                        return r;
        }
        return r == -EBADMSG ? walk_fail(w, r, "Metric: byte %zu is not well-formed",
                                         (size_t) (parts->points.next - w->start))
                             : r;
}

/* --- The leaves -------------------------------------------------------------------------------- */

int leaf_metric(struct walk *w, const uint8_t *data, size_t len) {
        struct metric_parts parts;
        struct metric m = { 0 };
        Otlp__Metric *o = NULL;
        int r;

        if (metric_parse(data, len, &parts))
                return plain_metric(w, &parts);
        r = unpack(w, &otlp__metric__descriptor, INGEST_DEPTH_MAX, data, len, &o);
        if (r < 0)
                return r;
        text_name(m.name, sizeof(m.name), o->name);
        text_name(m.unit, sizeof(m.unit), o->unit);
        switch ((int) o->data_case) { /* protobuf-c's padding member has another name before 1.4 */
        case OTLP__METRIC__DATA_GAUGE:
                return number_points(w, &m, o->gauge->data_points, o->gauge->n_data_points);
        case OTLP__METRIC__DATA_SUM:
                return number_points(w, &m, o->sum->data_points, o->sum->n_data_points);
        case OTLP__METRIC__DATA_HISTOGRAM:
                for (size_t i = 0; r == 0 && i < o->histogram->n_data_points; i++)
                        r = histogram_point(w, &m, o->histogram->data_points[i]);
                return r;
        default: /* not set */
                break;
        }
        walk_reject(w, m.name, "neither gauge, sum nor histogram");
        return count_row(w);
}

static int visit_event(struct walk *w, struct ingest_event *e, const json_t *body,
                       const json_t *attributes) {
        _cleanup_free_ char *body_text = json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY);
        _cleanup_free_ char *attributes_text = json_dumps(attributes, JSON_COMPACT | JSON_SORT_KEYS);
        const char *name = json_string_value(json_object_get(attributes, "event.name"));
        char short_name[INGEST_NAME_MAX];

        if (!body_text || !attributes_text)
                return -ENOMEM;
        text_name(short_name, sizeof(short_name), *e->name || !name ? e->name : name);
        if (strlen(body_text) > INGEST_EVENT_MAX || strlen(attributes_text) > INGEST_EVENT_MAX) {
                walk_reject(w, short_name, "its body or attributes are too long");
                return 0;
        }
        e->name = short_name;
        e->body = body_text;
        e->content = body;
        e->attributes = attributes_text;
        return visited(w, w->visitor->event(e, w->visitor->userdata), short_name);
}

int leaf_log(struct walk *w, const uint8_t *data, size_t len) {
        Otlp__LogRecord *l = NULL;
        struct ingest_event e = { 0 };
        json_t *body, *attributes;
        int r;

        r = unpack(w, &otlp__log_record__descriptor, INGEST_DEPTH_MAX, data, len, &l);
        if (r < 0)
                return r;
        r = count_row(w);
        if (r < 0)
                return r;
        e.name = l->event_name;
        e.severity = l->severity_number <= 24 ? l->severity_number : 0;
        e.time = (l->time_unix_nano ?: l->observed_time_unix_nano) / NSEC_PER_USEC;
        body = value_to_json(l->body);
        attributes = value_list_to_json(l->attributes, l->n_attributes);
        r = body && attributes ? visit_event(w, &e, body, attributes) : -ENOMEM;
        json_decref(body);
        json_decref(attributes);
        return r;
}

int leaf_resource(struct walk *w, const uint8_t *data, size_t len, struct ingest_resource *ret) {
        const struct {
                const char *key;
                char *to;
        } texts[] = {
                { "service.instance.id", ret->host },
                { "host.name", ret->host }, /* the later one wins */
                { "service.name", ret->service },
                { "service.version", ret->version },
                { "tpu.boot.id", ret->boot_id },
                { "tpu.slice.name", ret->slice },
                { "tpu.accelerator.type", ret->accelerator_type },
        };
        Otlp__Resource *o = NULL;
        int r;

        r = unpack(w, &otlp__resource__descriptor, INGEST_DEPTH_MAX, data, len, &o);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                const char *text = value_find_text(o->attributes, o->n_attributes, texts[i].key);

                if (text && *text)
                        text_name(texts[i].to, INGEST_NAME_MAX, text);
        }
        ret->worker_id = value_find_number(o->attributes, o->n_attributes, "tpu.worker.id");
        return 0;
}
