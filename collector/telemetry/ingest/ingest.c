/* SPDX-License-Identifier: Apache-2.0 */
#include "ingest.h"

#include <math.h>

#include "point_wire.h"
#include "texts.h"
#include "unpack.h"
#include "utf8.h"
#include "value.h"

/* One request while it is walked. */
struct walk {
        const struct ingest_visitor *visitor;
        struct ingest_result *result;
        struct unpack_memory memory;
        const uint8_t *start; /* of the request, to name bytes in errors */
        const struct ingest_resource *resource;
        struct point_key key; /* of the point at hand */
};

#define walk_fail(w, r, ...) text_fail((w)->result->why, sizeof((w)->result->why), r, __VA_ARGS__)

/* Counts one row that is not taken, with the reason. */
static void walk_reject(struct walk *w, const char *name, const char *reason) {
        w->result->rejected++;
        (void) walk_fail(w, 0, "%.80s: %s", name, reason);
}

/* It is in a point, in a gauge or the like, in a metric. */
#define ATTRIBUTE_DEPTH_MAX (INGEST_DEPTH_MAX - 3)
/* Of a point's attributes on the wire: more are too long as text, too, or one key again and again. */
#define ATTRIBUTE_BYTES_MAX ((size_t) 4 * INGEST_ATTRIBUTES_MAX)

/* Unpacks after looking at it, depth messages deep; the message lives in the memory until its reset. */
static int unpack_message(struct walk *w, const ProtobufCMessageDescriptor *d, unsigned depth,
                          const uint8_t *data, size_t len, void *ret) {
        size_t at = (size_t) (data - w->start);
        ProtobufCMessage *m;
        int r = wire_check(d, data, len, depth);

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
static int row_visited(struct walk *w, int r, const char *name) {
        if (r == -EDQUOT) {
                walk_reject(w, name, "no room for one more series or time");
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

/* --- Metrics --------------------------------------------------------------------------------------- */

/* The point at hand of a metric. */
struct at_hand {
        enum metric_kind kind;
        const struct wire_field *bytes;
};

/* -EMSGSIZE: they are too long. */
static int labels_of(struct walk *w, const struct at_hand *h, json_t *labels) {
        struct wire at = { .next = h->bytes->data, .end = h->bytes->data + h->bytes->len };
        struct wire_field f;
        size_t bytes = 0;
        int r;

        while ((r = point_next_attribute(h->kind, &at, &f)) > 0) {
                Otlp__KeyValue *kv = NULL;

                bytes += f.len + 2; /* with tag and length */
                if (bytes > ATTRIBUTE_BYTES_MAX)
                        return -EMSGSIZE;
                r = unpack_message(w, &otlp__key_value__descriptor, ATTRIBUTE_DEPTH_MAX, f.data, f.len, &kv);
                if (r >= 0)
                        r = value_add(labels, kv);
                if (r < 0)
                        return r;
        }
        return r;
}

/* With its attributes. */
static int visit_whole(struct walk *w, const struct at_hand *h, struct ingest_point *p) {
        json_auto_t *labels = json_object();
        _cleanup_free_ char *text = NULL;
        int r = labels ? labels_of(w, h, labels) : -ENOMEM;

        text = r < 0 ? NULL : json_dumps(labels, JSON_COMPACT | JSON_SORT_KEYS);
        if (r >= 0 && !text)
                r = -ENOMEM;
        else if (r == -EMSGSIZE || (r >= 0 && strlen(text) > INGEST_ATTRIBUTES_MAX)) {
                walk_reject(w, p->name, "its attributes are too long");
                r = 0;
        } else if (r >= 0) {
                p->attributes = text;
                p->labels = labels;
                r = row_visited(w, w->visitor->point(p, w->visitor->userdata), p->name);
        }
        return r;
}

/* Its key is in w. */
static int visit_point(struct walk *w, const struct at_hand *h, struct ingest_point *p) {
        int r = count_row(w);

        if (r < 0)
                return r;
        p->key = w->key.bytes;
        p->key_len = w->key.full ? 0 : w->key.len;
        return is_known(w, p) ? row_visited(w, w->visitor->point(p, w->visitor->userdata), p->name) :
                                visit_whole(w, h, p);
}

static int not_well_formed(struct walk *w, const uint8_t *at) {
        return walk_fail(w, -EBADMSG, "Metric: byte %zu is not well-formed", (size_t) (at - w->start));
}

/* Of a histogram there are two: how many, and their sum. */
static int visit_series(struct walk *w, const struct at_hand *h, const char *name, const char *unit,
                        bool is_sum) {
        struct ingest_point p = { .name = name, .unit = unit };
        struct point o;

        point_key_begin(&w->key, w->resource->service, name);
        if (point_parse(h->kind, h->bytes, &w->key, &o) < 0)
                return not_well_formed(w, h->bytes->data);
        if (o.unrecorded || (is_sum && !o.is_set))
                return 0;
        if (h->kind == METRIC_NUMBERS && !o.is_set) {
                walk_reject(w, name, "a point without a value");
                return count_row(w);
        }
        p.is_int = o.is_int;
        p.i = o.i;
        p.d = o.d;
        p.time = o.time_nsec / NSEC_PER_USEC;
        if (h->kind == METRIC_HISTOGRAM && !is_sum) {
                p.is_int = true;
                p.i = (int64_t) MIN(o.count, (uint64_t) INT64_MAX);
                p.d = (double) p.i;
        }
        return visit_point(w, h, &p);
}

static int visit_histogram(struct walk *w, const struct at_hand *h, const char *name, const char *unit) {
        char part[INGEST_NAME_MAX + 8];
        int r;

        (void) snprintf(part, sizeof(part), "%s.count", name);
        r = visit_series(w, h, part, "", false);
        if (r < 0)
                return r;
        (void) snprintf(part, sizeof(part), "%s.sum", name);
        return visit_series(w, h, part, unit, true);
}

static int leaf_metric(struct walk *w, const uint8_t *data, size_t len) {
        char name[INGEST_NAME_MAX], unit[INGEST_NAME_MAX];
        struct metric_parts m;
        struct wire_field f;
        int r;

        if (metric_parse(data, len, &m) < 0)
                return not_well_formed(w, data);
        utf8_copy_line(name, sizeof(name), m.name);
        utf8_copy_line(unit, sizeof(unit), m.unit);
        if (m.kind == METRIC_OTHER) {
                walk_reject(w, name, "neither gauge, sum nor histogram");
                return count_row(w);
        }
        while ((r = metric_next_point(&m, &f)) > 0) {
                const struct at_hand h = { .kind = m.kind, .bytes = &f };

                r = m.kind == METRIC_HISTOGRAM ? visit_histogram(w, &h, name, unit) :
                                                 visit_series(w, &h, name, unit, false);
                if (r < 0)
                        return r;
        }
        return r < 0 ? not_well_formed(w, m.points.next) : 0;
}

/* --- Log records, resources ------------------------------------------------------------------------ */

static int visit_event(struct walk *w, struct ingest_event *e, const json_t *body,
                       const json_t *attributes) {
        _cleanup_free_ char *body_text = json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY);
        _cleanup_free_ char *attributes_text = json_dumps(attributes, JSON_COMPACT | JSON_SORT_KEYS);
        const char *name = json_string_value(json_object_get(attributes, "event.name"));
        char short_name[INGEST_NAME_MAX];

        if (!body_text || !attributes_text)
                return -ENOMEM;
        utf8_copy_line(short_name, sizeof(short_name), *e->name || !name ? e->name : name);
        if (strlen(body_text) > INGEST_EVENT_MAX || strlen(attributes_text) > INGEST_EVENT_MAX) {
                walk_reject(w, short_name, "its body or attributes are too long");
                return 0;
        }
        e->name = short_name;
        e->body = body_text;
        e->content = body;
        e->attributes = attributes_text;
        return row_visited(w, w->visitor->event(e, w->visitor->userdata), short_name);
}

static int leaf_log(struct walk *w, const uint8_t *data, size_t len) {
        Otlp__LogRecord *l = NULL;
        struct ingest_event e = { 0 };
        json_auto_t *body = NULL, *attributes = NULL;
        int r = unpack_message(w, &otlp__log_record__descriptor, INGEST_DEPTH_MAX, data, len, &l);

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
        return body && attributes ? visit_event(w, &e, body, attributes) : -ENOMEM;
}

static int leaf_resource(struct walk *w, const uint8_t *data, size_t len, struct ingest_resource *ret) {
        const struct {
                const char *key;
                char *to;
        } texts[] = {
                { "service.instance.id", ret->instance },
                { "host.name", ret->host },
                { "host.id", ret->machine },
                { "service.name", ret->service },
                { "service.version", ret->version },
                { "tpu.boot.id", ret->boot_id },
                { "tpu.slice.name", ret->slice },
                { "tpu.accelerator.type", ret->accelerator_type },
        };
        Otlp__Resource *o = NULL;
        int r = unpack_message(w, &otlp__resource__descriptor, INGEST_DEPTH_MAX, data, len, &o);

        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                const char *text = value_find_text(o->attributes, o->n_attributes, texts[i].key);

                if (text && *text)
                        utf8_copy_line(texts[i].to, INGEST_NAME_MAX, text);
        }
        ret->worker_id = value_find_number(o->attributes, o->n_attributes, "tpu.worker.id");
        return 0;
}

/* --- Requests -------------------------------------------------------------------------------------- */

/*
 * Field numbers of the envelope, the same for metrics and logs (opentelemetry-proto, stable since 1.0): a
 * request holds groups, a group a resource and scopes, a scope metrics or log records.
 */
enum { REQUEST_GROUP = 1, GROUP_RESOURCE = 1, GROUP_SCOPE = 2, SCOPE_LEAF = 2 };

typedef int (*leaf_fn)(struct walk *w, const uint8_t *data, size_t len);

/* The next field of this number that is a message; others are skipped. As wire_next(). */
static int next_message(struct walk *w, struct wire *at, uint32_t number, struct wire_field *ret) {
        struct wire_field f;
        int r;

        while ((r = wire_next(at, &f)) > 0) {
                if (f.number != number)
                        continue;
                if (f.type != WIRE_BYTES)
                        return walk_fail(w, -EBADMSG, "byte %zu: field %u is no message",
                                         (size_t) (f.data - w->start), number);
                *ret = f;
                return 1;
        }
        if (r < 0)
                (void) walk_fail(w, r, "byte %zu: not a protobuf field, or cut off",
                                 (size_t) (at->next - w->start));
        return r;
}

static int walk_scope(struct walk *w, const struct wire_field *scope, leaf_fn leaf) {
        struct wire at = { .next = scope->data, .end = scope->data + scope->len };
        struct wire_field f;
        int r;

        while ((r = next_message(w, &at, SCOPE_LEAF, &f)) > 0) {
                r = leaf(w, f.data, f.len);
                if (r < 0)
                        return r;
        }
        return r;
}

/* The resource may stand behind its scopes: it is looked for first. */
static int find_resource(struct walk *w, const struct wire_field *group, struct ingest_resource *ret) {
        struct wire at = { .next = group->data, .end = group->data + group->len };
        struct wire_field f;
        unsigned found = 0;
        int r;

        while ((r = next_message(w, &at, GROUP_RESOURCE, &f)) > 0) {
                if (found++ > 0)
                        return walk_fail(w, -EBADMSG, "byte %zu: a second resource",
                                         (size_t) (f.data - w->start));
                r = leaf_resource(w, f.data, f.len, ret);
                if (r < 0)
                        return r;
        }
        return r;
}

static int walk_group(struct walk *w, const struct wire_field *group, leaf_fn leaf) {
        struct wire at = { .next = group->data, .end = group->data + group->len };
        struct ingest_resource resource = { .worker_id = -1 };
        struct wire_field f;
        int r = find_resource(w, group, &resource);

        if (r < 0)
                return r;
        w->resource = &resource;
        r = w->visitor->resource(&resource, w->visitor->userdata);
        if (r < 0)
                return r;
        while ((r = next_message(w, &at, GROUP_SCOPE, &f)) > 0) {
                r = walk_scope(w, &f, leaf);
                if (r < 0)
                        return r;
        }
        return r < 0 ? r : w->visitor->done(w->visitor->userdata);
}

int ingest_request(enum ingest_kind kind, const void *data, size_t len, const struct ingest_visitor *v,
                   struct ingest_result *ret) {
        struct walk w = { .visitor = v, .result = ret, .start = data };
        struct wire at = { .next = data };
        leaf_fn leaf = kind == INGEST_METRICS ? leaf_metric : leaf_log;
        struct wire_field f;
        unsigned groups = 0;
        int r;

        *ret = (struct ingest_result) { 0 };
        if (len == 0)
                return 0;       /* an empty request is a valid one */
        at.end = w.start + len; /* not before: data may be NULL when there is nothing */
        unpack_memory_init(&w.memory, INGEST_MEMORY_MAX);
        while ((r = next_message(&w, &at, REQUEST_GROUP, &f)) > 0) {
                if (groups++ >= INGEST_GROUPS_MAX)
                        r = walk_fail(&w, -E2BIG, "more than %d resources in one request",
                                      INGEST_GROUPS_MAX);
                else
                        r = walk_group(&w, &f, leaf);
                if (r < 0)
                        break;
        }
        unpack_memory_clear(&w.memory);
        return r;
}
