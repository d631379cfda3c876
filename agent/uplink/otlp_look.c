/* SPDX-License-Identifier: Apache-2.0 */
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

/* The first field of type with number a, b or c. */
static bool find(struct bytes in, unsigned type, const uint64_t numbers[static 3], struct bytes *ret) {
        struct field f;

        while (take_field(&in, &f))
                for (size_t i = 0; i < 3; i++)
                        if (f.type == type && f.number == numbers[i]) {
                                *ret = f.value;
                                return true;
                        }
        return false;
}

static usec_t fixed_time(struct bytes in, uint64_t number) {
        const uint64_t numbers[3] = { number, number, number };
        uint64_t ns;

        if (!find(in, WIRE_FIXED64, numbers, &in))
                return 0;
        memcpy(&ns, in.data, sizeof(ns)); /* little endian, as this machine is (x86-64 only) */
        return ns / NSEC_PER_USEC;
}

/* ExportRequest.1 → Resource….2 → Scope….2: the first log record, or the first metric. */
static bool first_item(const void *data, size_t len, struct bytes *ret) {
        static const uint64_t one[3] = { 1, 1, 1 }, two[3] = { 2, 2, 2 };
        struct bytes b = { data, len };

        return find(b, WIRE_BYTES, one, &b) && find(b, WIRE_BYTES, two, &b) && find(b, WIRE_BYTES, two, ret);
}

usec_t otlp_first_log_time(const void *data, size_t len) {
        struct bytes b;

        return first_item(data, len, &b) ? fixed_time(b, 1) : 0; /* LogRecord.time_unix_nano */
}

usec_t otlp_first_point_time(const void *data, size_t len) {
        static const uint64_t kinds[3] = { 5, 7, 9 }; /* Metric.gauge, .sum, .histogram */
        static const uint64_t points[3] = { 1, 1, 1 };
        struct bytes b;

        if (!first_item(data, len, &b) || !find(b, WIRE_BYTES, kinds, &b) ||
            !find(b, WIRE_BYTES, points, &b))
                return 0;
        return fixed_time(b, 3); /* …DataPoint.time_unix_nano */
}

/* Points in the gauge, sum or histogram of one Metric. */
static uint64_t points_of_metric(struct bytes metric) {
        struct field f, point;
        uint64_t n = 0;

        while (take_field(&metric, &f))
                if (f.type == WIRE_BYTES && (f.number == 5 || f.number == 7 || f.number == 9))
                        while (take_field(&f.value, &point))
                                n += point.type == WIRE_BYTES && point.number == 1;
        return n;
}

uint64_t otlp_count_points(const void *data, size_t len) {
        struct bytes request = { data, len };
        struct field resource, scope, metric;
        uint64_t n = 0;

        while (take_field(&request, &resource))
                while (resource.type == WIRE_BYTES && resource.number == 1 &&
                       take_field(&resource.value, &scope))
                        while (scope.type == WIRE_BYTES && scope.number == 2 &&
                               take_field(&scope.value, &metric))
                                if (metric.type == WIRE_BYTES && metric.number == 2)
                                        n += points_of_metric(metric.value);
        return n;
}

uint64_t otlp_count_logs(const void *data, size_t len) {
        struct bytes request = { data, len };
        struct field resource, scope, record;
        uint64_t n = 0;

        while (take_field(&request, &resource))
                while (resource.type == WIRE_BYTES && resource.number == 1 &&
                       take_field(&resource.value, &scope))
                        while (scope.type == WIRE_BYTES && scope.number == 2 &&
                               take_field(&scope.value, &record))
                                n += record.type == WIRE_BYTES && record.number == 2;
        return n;
}

bool otlp_first_event_is(const void *data, size_t len, const char *name) {
        static const uint64_t event_name[3] = { 12, 12, 12 };
        struct bytes b;

        return first_item(data, len, &b) && find(b, WIRE_BYTES, event_name, &b) &&
               b.len == strlen(name) && memcmp(b.data, name, b.len) == 0;
}
