/* SPDX-License-Identifier: Apache-2.0 */
#include "otlp.pb-c.h"
#include "otlp_look.h"

/* Protobuf's wire types (protobuf.dev, "Encoding"). */
enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct bytes {
        const uint8_t *data;
        size_t len;
};

struct field {
        uint64_t number;
        unsigned type;
        struct bytes value;
};

static bool take_varint(struct bytes *b, uint64_t *ret) {
        uint64_t v = 0;

        for (unsigned shift = 0; shift < 64 && b->len > 0; shift += 7) {
                uint8_t byte = *b->data++;

                b->len--;
                v |= (uint64_t) (byte & 0x7f) << shift;
                if (byte < 0x80) {
                        *ret = v;
                        return true;
                }
        }
        return false;
}

static bool take_field(struct bytes *b, struct field *ret) {
        uint64_t key, size = 0;

        if (!take_varint(b, &key))
                return false;
        ret->number = key >> 3;
        ret->type = (unsigned) (key & 7);
        if (ret->type == WIRE_VARINT)
                return take_varint(b, &size);
        if (ret->type == WIRE_FIXED64)
                size = 8;
        else if (ret->type == WIRE_FIXED32)
                size = 4;
        else if (ret->type != WIRE_BYTES || !take_varint(b, &size))
                return false;
        if (size > b->len)
                return false;
        ret->value = (struct bytes) { b->data, (size_t) size };
        b->data += size;
        b->len -= (size_t) size;
        return true;
}

/* Metric.gauge, .sum, .histogram */
static bool is_kind(uint64_t number) {
        return number == 5 || number == 7 || number == 9;
}

/* The first field of this type and number; number 0: that is_kind(). */
static bool find(struct bytes in, unsigned type, uint64_t number, struct bytes *ret) {
        struct field f;

        while (take_field(&in, &f))
                if (f.type == type && (number > 0 ? f.number == number : is_kind(f.number))) {
                        *ret = f.value;
                        return true;
                }
        return false;
}

static usec_t fixed_time(struct bytes in, uint64_t number) {
        uint64_t ns;

        if (!find(in, WIRE_FIXED64, number, &in))
                return 0;
        memcpy(&ns, in.data, sizeof(ns)); /* little endian, as this machine is (x86-64 only) */
        return ns / NSEC_PER_USEC;
}

/* ExportRequest.1 → Resource….2 → Scope….2: the first log record, or the first metric. */
static bool first_item(const void *data, size_t len, struct bytes *ret) {
        struct bytes b = { data, len };

        return find(b, WIRE_BYTES, 1, &b) && find(b, WIRE_BYTES, 2, &b) && find(b, WIRE_BYTES, 2, ret);
}

usec_t otlp_first_log_time(const void *data, size_t len) {
        struct bytes b;

        return first_item(data, len, &b) ? fixed_time(b, 1) : 0; /* LogRecord.time_unix_nano */
}

usec_t otlp_first_point_time(const void *data, size_t len) {
        struct bytes b;

        if (!first_item(data, len, &b) || !find(b, WIRE_BYTES, 0, &b) || !find(b, WIRE_BYTES, 1, &b))
                return 0;
        return fixed_time(b, 3); /* …DataPoint.time_unix_nano */
}

/* Points in the gauge, sum or histogram of one Metric. */
static uint64_t points_of_metric(struct bytes metric) {
        struct field f, point;
        uint64_t n = 0;

        while (take_field(&metric, &f))
                if (f.type == WIRE_BYTES && is_kind(f.number))
                        while (take_field(&f.value, &point))
                                n += point.type == WIRE_BYTES && point.number == 1;
        return n;
}

static uint64_t one(struct bytes record) {
        (void) record;
        return 1;
}

/* The sum over all metrics, or log records, of a request. */
static uint64_t count(const void *data, size_t len, uint64_t (*of)(struct bytes item)) {
        struct bytes request = { data, len };
        struct field resource, scope, item;
        uint64_t n = 0;

        while (take_field(&request, &resource))
                while (resource.type == WIRE_BYTES && resource.number == 1 &&
                       take_field(&resource.value, &scope))
                        while (scope.type == WIRE_BYTES && scope.number == 2 &&
                               take_field(&scope.value, &item))
                                if (item.type == WIRE_BYTES && item.number == 2)
                                        n += of(item.value);
        return n;
}

uint64_t otlp_count_points(const void *data, size_t len) {
        return count(data, len, points_of_metric);
}

uint64_t otlp_count_logs(const void *data, size_t len) {
        return count(data, len, one);
}

bool otlp_first_event_is(const void *data, size_t len, const char *name) {
        struct bytes b;

        return first_item(data, len, &b) && find(b, WIRE_BYTES, 12, &b) &&
               b.len == strlen(name) && memcmp(b.data, name, b.len) == 0;
}

/* --- Parts ------------------------------------------------------------------------------------------- */

typedef Otlp__ExportMetricsServiceRequest request_t;

static inline void request_freep(request_t **m) {
        if (*m)
                otlp__export_metrics_service_request__free_unpacked(*m, NULL);
}

static Otlp__ScopeMetrics *only_scope(const request_t *m) {
        if (!m || m->n_resource_metrics != 1 || m->resource_metrics[0]->n_scope_metrics != 1)
                return NULL;
        return m->resource_metrics[0]->scope_metrics[0];
}

int otlp_split_metrics(const void *data, size_t len, unsigned part, unsigned parts, uint8_t **ret,
                       size_t *ret_len) {
        _cleanup_(request_freep) request_t *m = NULL;
        Otlp__ScopeMetrics *s;
        Otlp__Metric **metrics;
        size_t n, begin;
        uint8_t *out;

        m = otlp__export_metrics_service_request__unpack(NULL, len, data);
        s = only_scope(m);
        if (!s || s->n_metrics < parts || part >= parts)
                return -ENODATA;
        metrics = s->metrics;
        n = s->n_metrics;
        begin = n * part / parts;
        s->metrics = metrics + begin;
        s->n_metrics = n * (part + 1) / parts - begin;
        out = malloc(otlp__export_metrics_service_request__get_packed_size(m));
        if (out) {
                *ret_len = otlp__export_metrics_service_request__pack(m, out);
                *ret = out;
        }
        s->metrics = metrics; /* all of it is freed */
        s->n_metrics = n;
        return out ? 0 : -ENOMEM;
}
