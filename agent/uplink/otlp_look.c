/* SPDX-License-Identifier: Apache-2.0 */
#include "otlp.pb-c.h"
#include "otlp_look.h"
#include "unpack.h"

/* Metric.gauge, .sum, .histogram */
static bool is_kind(uint32_t number) {
        return number == 5 || number == 7 || number == 9;
}

/* The next field of this type and number (0: that is_kind()). False: there is none. */
static bool next_field(struct wire *at, enum wire_type type, uint32_t number, struct wire *ret) {
        struct wire_field f;

        while (wire_next(at, &f) > 0)
                if (f.type == type && (number > 0 ? f.number == number : is_kind(f.number))) {
                        *ret = (struct wire){ f.data, f.data + f.len };
                        return true;
                }
        return false;
}

static bool next_message(struct wire *at, uint32_t number, struct wire *ret) {
        return next_field(at, WIRE_BYTES, number, ret);
}

/* The first one. */
static bool find_field(struct wire in, enum wire_type type, uint32_t number, struct wire *ret) {
        return next_field(&in, type, number, ret);
}

static usec_t fixed_time(struct wire in, uint32_t number) {
        uint64_t ns;

        if (!find_field(in, WIRE_FIXED64, number, &in))
                return 0;
        memcpy(&ns, in.next, sizeof(ns)); /* little endian, as this machine is (x86-64 only) */
        return ns / NSEC_PER_USEC;
}

static struct wire whole(const void *data, size_t len) {
        static const uint8_t nothing[1];
        const uint8_t *start = data ? data : nothing;

        return (struct wire){ start, start + len };
}

/* ExportRequest.1 → Resource….2 → Scope….2: the first log record, or the first metric. */
static bool first_item(const void *data, size_t len, struct wire *ret) {
        struct wire b = whole(data, len);

        return find_field(b, WIRE_BYTES, 1, &b) && find_field(b, WIRE_BYTES, 2, &b) &&
               find_field(b, WIRE_BYTES, 2, ret);
}

usec_t otlp_first_log_time(const void *data, size_t len) {
        struct wire b;

        return first_item(data, len, &b) ? fixed_time(b, 1) : 0; /* LogRecord.time_unix_nano */
}

usec_t otlp_first_point_time(const void *data, size_t len) {
        struct wire b;

        if (!first_item(data, len, &b) || !find_field(b, WIRE_BYTES, 0, &b) ||
            !find_field(b, WIRE_BYTES, 1, &b))
                return 0;
        return fixed_time(b, 3); /* …DataPoint.time_unix_nano */
}

/* Points in the gauge, sum or histogram of one Metric. */
static uint64_t points_of_metric(struct wire metric) {
        struct wire data, point;
        uint64_t n = 0;

        while (next_message(&metric, 0, &data))
                while (next_message(&data, 1, &point))
                        n++;
        return n;
}

static uint64_t one(struct wire record) {
        (void) record;
        return 1;
}

/* The sum over all metrics, or log records, of a request. */
static uint64_t count_items(const void *data, size_t len, uint64_t (*of)(struct wire item)) {
        struct wire request = whole(data, len), resource, scope, item;
        uint64_t n = 0;

        while (next_message(&request, 1, &resource))
                while (next_message(&resource, 2, &scope))
                        while (next_message(&scope, 2, &item))
                                n += of(item);
        return n;
}

uint64_t otlp_count_points(const void *data, size_t len) {
        return count_items(data, len, points_of_metric);
}

uint64_t otlp_count_logs(const void *data, size_t len) {
        return count_items(data, len, one);
}

bool otlp_first_event_is(const void *data, size_t len, const char *name) {
        struct wire b;

        return first_item(data, len, &b) && find_field(b, WIRE_BYTES, 12, &b) &&
               (size_t) (b.end - b.next) == strlen(name) && memcmp(b.next, name, strlen(name)) == 0;
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
