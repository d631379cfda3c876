/* SPDX-License-Identifier: Apache-2.0 */
#include "point_wire.h"

/* Field numbers: opentelemetry-proto, metrics.proto, stable since 1.0; proto/otlp.proto has what is used. */
enum { METRIC_NAME = 1, METRIC_UNIT = 3, METRIC_GAUGE = 5, METRIC_SUM = 7, METRIC_HISTO = 9 };
enum { METRIC_SUMMARY = 11 };
enum { DATA_POINTS = 1, DATA_TEMPORALITY = 2, DATA_MONOTONIC = 3 };
enum { POINT_TIME = 3, NUMBER_DOUBLE = 4, NUMBER_INT = 6, HISTOGRAM_COUNT = 4, HISTOGRAM_SUM = 5 };
#define FLAG_NO_RECORDED_VALUE 1 /* DataPointFlags */

/* Where the two kinds of points differ. */
static const struct {
        uint32_t attributes, flags;
} fields[] = { [METRIC_NUMBERS] = { 7, 8 }, [METRIC_HISTOGRAM] = { 9, 10 } };

/* --- The name of a series -------------------------------------------------------------------------- */

static void key_add(struct point_key *k, char type, const void *data, size_t len) {
        uint16_t size = (uint16_t) len;

        if (len > UINT16_MAX || k->full || sizeof(k->bytes) - k->len < len + 1 + sizeof(size)) {
                k->full = true;
                return;
        }
        k->bytes[k->len++] = (uint8_t) type;
        memcpy(k->bytes + k->len, &size, sizeof(size));
        k->len += sizeof(size);
        memcpy(k->bytes + k->len, data, len);
        k->len += len;
}

void point_key_begin(struct point_key *k, const char *service, const char *name) {
        k->len = 0;
        k->full = false;
        key_add(k, 'S', service, strlen(service));
        key_add(k, 'N', name, strlen(name));
}

/* --- A metric -------------------------------------------------------------------------------------- */

static void take_text(char to[static METRIC_TEXT_MAX], const struct wire_field *f) {
        size_t n = MIN(f->len, (size_t) METRIC_TEXT_MAX - 1);

        memcpy(to, f->data, n);
        to[n] = '\0';
}

static bool take_metric_field(struct metric_parts *m, const struct wire_field *f) {
        if (f->number < METRIC_NAME || f->number > METRIC_SUMMARY)
                return true; /* of a later version */
        if (f->type != WIRE_BYTES)
                return false;
        if (f->number == METRIC_NAME)
                take_text(m->name, f);
        else if (f->number == METRIC_UNIT)
                take_text(m->unit, f);
        if (f->number != METRIC_GAUGE && f->number != METRIC_SUM && f->number != METRIC_HISTO)
                return true;
        if (m->kind != METRIC_OTHER)
                return false;
        m->kind = f->number == METRIC_HISTO ? METRIC_HISTOGRAM : METRIC_NUMBERS;
        m->points = (struct wire){ .next = f->data, .end = f->data + f->len };
        return true;
}

int metric_parse(const uint8_t *data, size_t len, struct metric_parts *ret) {
        struct wire at = { .next = data, .end = data + len };
        struct wire_field f;
        int r;

        ret->name[0] = ret->unit[0] = '\0';
        ret->kind = METRIC_OTHER;
        while ((r = wire_next(&at, &f)) > 0)
                if (!take_metric_field(ret, &f))
                        return -EBADMSG;
        return r;
}

int metric_next_point(struct metric_parts *m, struct wire_field *ret) {
        int r;

        while ((r = wire_next(&m->points, ret)) > 0) {
                if (ret->number == DATA_POINTS)
                        return ret->type == WIRE_BYTES ? 1 : -EBADMSG;
                if ((ret->number == DATA_TEMPORALITY || ret->number == DATA_MONOTONIC) &&
                    ret->type != WIRE_VARINT)
                        return -EBADMSG; /* what is of a later version is passed over */
        }
        return r;
}

/* --- A point --------------------------------------------------------------------------------------- */

static bool take_fixed(const struct wire_field *f, void *ret) {
        if (f->type != WIRE_FIXED64)
                return false;
        memcpy(ret, f->data, sizeof(uint64_t)); /* x86-64 only: little-endian, as is the wire */
        return true;
}

static bool take_number(struct point *p, const struct wire_field *f) {
        if (f->number != NUMBER_DOUBLE && f->number != NUMBER_INT)
                return true;
        p->is_set = true;
        p->is_int = f->number == NUMBER_INT;
        return p->is_int ? take_fixed(f, &p->i) : take_fixed(f, &p->d);
}

static bool take_histogram(struct point *p, const struct wire_field *f) {
        if (f->number == HISTOGRAM_COUNT)
                return take_fixed(f, &p->count);
        p->is_set = p->is_set || f->number == HISTOGRAM_SUM;
        return f->number != HISTOGRAM_SUM || take_fixed(f, &p->d);
}

int point_parse(enum metric_kind kind, const struct wire_field *point, struct point_key *key,
                struct point *ret) {
        struct wire at = { .next = point->data, .end = point->data + point->len };
        struct point p = { 0 };
        struct wire_field f;
        bool good = true;
        int r;

        while (good && (r = wire_next(&at, &f)) > 0)
                if (f.number == fields[kind].attributes) {
                        good = f.type == WIRE_BYTES;
                        if (good)
                                key_add(key, 'e', f.data, f.len);
                } else if (f.number == fields[kind].flags) {
                        good = f.type == WIRE_VARINT;
                        p.unrecorded = good && f.data[0] & FLAG_NO_RECORDED_VALUE;
                } else if (f.number == POINT_TIME)
                        good = take_fixed(&f, &p.time_nsec);
                else
                        good = kind == METRIC_HISTOGRAM ? take_histogram(&p, &f) : take_number(&p, &f);
        if (!good || r < 0)
                return -EBADMSG;
        if (p.is_int)
                p.d = (double) p.i;
        *ret = p;
        return 0;
}

int point_next_attribute(enum metric_kind kind, struct wire *at, struct wire_field *ret) {
        int r;

        while ((r = wire_next(at, ret)) > 0)
                if (ret->number == fields[kind].attributes)
                        return 1;
        return r;
}
