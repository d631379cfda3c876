/* SPDX-License-Identifier: Apache-2.0 */
#include "point_wire.h"

/* Field numbers: opentelemetry-proto, metrics.proto, stable since 1.0; proto/otlp.proto has what is used. */
enum { METRIC_NAME = 1, METRIC_DESCRIPTION = 2, METRIC_UNIT = 3, METRIC_GAUGE = 5, METRIC_SUM = 7 };
enum { DATA_POINTS = 1, DATA_TEMPORALITY = 2, DATA_MONOTONIC = 3 };
enum {
        NUMBER_START = 2,
        NUMBER_TIME = 3,
        NUMBER_DOUBLE = 4,
        NUMBER_INT = 6,
        NUMBER_ATTRIBUTES = 7,
        NUMBER_FLAGS = 8,
};
#define FLAG_NO_RECORDED_VALUE 1 /* DataPointFlags */

static bool take_metric_field(struct metric_parts *m, const struct wire_field *f) {
        if (f->type != WIRE_BYTES)
                return false;
        switch (f->number) {
        case METRIC_NAME:
                m->name = f->data;
                m->name_len = f->len;
                return f->len < METRIC_TEXT_MAX;
        case METRIC_UNIT:
                m->unit = f->data;
                m->unit_len = f->len;
                return f->len < METRIC_TEXT_MAX;
        case METRIC_DESCRIPTION:
                return true;
        case METRIC_GAUGE:
        case METRIC_SUM:
                if (m->points.next)
                        return false;
                m->points = (struct wire){ .next = f->data, .end = f->data + f->len };
                m->is_sum = f->number == METRIC_SUM;
                return true;
        default:
                return false;
        }
}

bool metric_parse(const uint8_t *data, size_t len, struct metric_parts *ret) {
        struct wire at = { .next = data, .end = data + len };
        struct metric_parts m = { 0 };
        struct wire_field f;
        int r;

        while ((r = wire_next(&at, &f)) > 0)
                if (!take_metric_field(&m, &f))
                        return false;
        if (r < 0 || !m.points.next)
                return false;
        *ret = m;
        return true;
}

int metric_next_point(struct metric_parts *m, struct wire_field *ret) {
        int r;

        while ((r = wire_next(&m->points, ret)) > 0) {
                if (ret->number == DATA_POINTS)
                        return ret->type == WIRE_BYTES ? 1 : -EBADMSG;
                if (m->is_sum && (ret->number == DATA_TEMPORALITY || ret->number == DATA_MONOTONIC) &&
                    ret->type != WIRE_VARINT)
                        return -EBADMSG;
        }
        return r;
}

static bool take_fixed(const struct wire_field *f, void *ret) {
        if (f->type != WIRE_FIXED64)
                return false;
        memcpy(ret, f->data, sizeof(uint64_t)); /* x86-64 only: little-endian, as is the wire */
        return true;
}

static bool take_number_field(struct number *n, const struct wire_field *f, struct point_key *key) {
        uint64_t ignored;

        switch (f->number) {
        case NUMBER_ATTRIBUTES:
                if (f->type == WIRE_BYTES)
                        point_key_add_encoded(key, f->data, f->len);
                return f->type == WIRE_BYTES;
        case NUMBER_START:
                return take_fixed(f, &ignored);
        case NUMBER_TIME:
                return take_fixed(f, &n->time_nsec);
        case NUMBER_DOUBLE:
                n->is_set = true;
                n->is_int = false;
                return take_fixed(f, &n->d);
        case NUMBER_INT:
                n->is_set = n->is_int = true;
                return take_fixed(f, &n->i);
        case NUMBER_FLAGS:
                if (f->type != WIRE_VARINT || f->len != 1)
                        return false;
                n->unrecorded = f->data[0] & FLAG_NO_RECORDED_VALUE;
                return true;
        default:
                return false;
        }
}

bool number_parse(const uint8_t *data, size_t len, struct point_key *key, struct number *ret) {
        struct wire at = { .next = data, .end = data + len };
        struct number n = { 0 };
        struct wire_field f;
        int r;

        while ((r = wire_next(&at, &f)) > 0)
                if (!take_number_field(&n, &f, key))
                        return false;
        if (r < 0)
                return false;
        if (n.is_int)
                n.d = (double) n.i;
        *ret = n;
        return true;
}
