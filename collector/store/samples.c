/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "samples.h"

enum { KIND_INT, KIND_DOUBLE, KIND_SUMMARY, KIND_TIME };
enum { FLAG_INT = 1, FLAG_SPREAD = 2 };

/* --- Writing --------------------------------------------------------------------------------- */

#define ENTRY_MAX 96 /* a time, a summary and its four values take less */

static uint64_t zigzag(int64_t v) {
        return ((uint64_t) v << 1) ^ (uint64_t) (v >> 63);
}

static int64_t unzigzag(uint64_t v) {
        return (int64_t) (v >> 1 ^ (0 - (v & 1)));
}

static void put_varint(struct samples_out *o, uint64_t v) {
        for (; v >= 0x80; v >>= 7)
                o->data[o->len++] = (uint8_t) (v | 0x80);
        o->data[o->len++] = (uint8_t) v;
}

static void put_double(struct samples_out *o, double d) {
        memcpy(o->data + o->len, &d, sizeof(d)); /* x86-64 only: little-endian */
        o->len += sizeof(d);
}

static void put_last(struct samples_out *o, const struct sample *s) {
        if (s->is_int)
                put_varint(o, zigzag(s->i));
        else
                put_double(o, s->d);
}

void samples_begin(struct samples_out *o, int64_t base) {
        o->len = 0;
        o->series = 0;
        o->base = o->ms = base;
}

static void put_summary(struct samples_out *o, const struct sample *s) {
        bool spread = s->n > 1 && !(s->min >= s->max && s->d >= s->max && s->d <= s->min);

        put_varint(o, s->n);
        o->data[o->len++] = (uint8_t) ((s->is_int ? FLAG_INT : 0) | (spread ? FLAG_SPREAD : 0));
        put_last(o, s);
        if (!spread)
                return;
        put_double(o, s->min);
        put_double(o, s->max);
        put_double(o, s->mean);
}

int samples_put(struct samples_out *o, const struct sample *s) {
        uint64_t step = zigzag(s->series - o->series) << 2;

        if (o->size - o->len < ENTRY_MAX) {
                size_t size = MAX(2 * o->size, (size_t) 4096);
                uint8_t *data = realloc(o->data, size);

                if (!data)
                        return -ENOMEM;
                o->data = data;
                o->size = size;
        }
        if (s->ms != o->ms) {
                put_varint(o, KIND_TIME);
                put_varint(o, zigzag(s->ms - o->base));
                o->ms = s->ms;
        }
        if (s->n > 1) {
                put_varint(o, step | KIND_SUMMARY);
                put_summary(o, s);
        } else {
                put_varint(o, step | (s->is_int ? KIND_INT : KIND_DOUBLE));
                put_last(o, s);
        }
        o->series = s->series;
        return 0;
}

void samples_clear(struct samples_out *o) {
        free(o->data);
        *o = (struct samples_out) { 0 };
}

/* --- Reading --------------------------------------------------------------------------------- */

struct samples_in samples_read(const void *data, size_t len, int64_t base) {
        const uint8_t *start = len > 0 ? data : (const uint8_t *) "";

        return (struct samples_in) { .next = start, .end = start + len, .ms = base, .base = base };
}

static int get_varint(struct samples_in *in, uint64_t *ret) {
        uint64_t v = 0;

        for (unsigned shift = 0; shift < 64 && in->next < in->end; shift += 7) {
                uint8_t byte = *in->next++;

                v |= (uint64_t) (byte & 0x7f) << shift;
                if (!(byte & 0x80)) {
                        *ret = v;
                        return 0;
                }
        }
        return -EBADMSG;
}

static int get_double(struct samples_in *in, double *ret) {
        if ((size_t) (in->end - in->next) < sizeof(*ret))
                return -EBADMSG;
        memcpy(ret, in->next, sizeof(*ret));
        in->next += sizeof(*ret);
        return 0;
}

static int get_last(struct samples_in *in, struct sample *s) {
        uint64_t v;

        if (!s->is_int)
                return get_double(in, &s->d);
        if (get_varint(in, &v) < 0)
                return -EBADMSG;
        s->i = unzigzag(v);
        s->d = (double) s->i;
        return 0;
}

static int get_summary(struct samples_in *in, struct sample *s) {
        uint8_t flags;

        if (get_varint(in, &s->n) < 0 || s->n < 2 || in->next == in->end)
                return -EBADMSG;
        flags = *in->next++;
        s->is_int = flags & FLAG_INT;
        if (get_last(in, s) < 0)
                return -EBADMSG;
        s->min = s->max = s->mean = s->d;
        if (!(flags & FLAG_SPREAD))
                return 0;
        if (get_double(in, &s->min) < 0 || get_double(in, &s->max) < 0)
                return -EBADMSG;
        return get_double(in, &s->mean);
}

int samples_next(struct samples_in *in, struct sample *ret) {
        struct sample s = { .n = 1 };
        uint64_t head, distance;
        int r;

        for (;;) {
                if (in->next == in->end)
                        return 0;
                if (get_varint(in, &head) < 0)
                        return -EBADMSG;
                if ((head & 3) != KIND_TIME)
                        break;
                if (get_varint(in, &distance) < 0)
                        return -EBADMSG;
                in->ms = (int64_t) ((uint64_t) in->base + (uint64_t) unzigzag(distance));
        }
        s.series = in->series = (int64_t) ((uint64_t) in->series + (uint64_t) unzigzag(head >> 2));
        s.ms = in->ms;
        s.is_int = (head & 3) == KIND_INT;
        r = (head & 3) == KIND_SUMMARY ? get_summary(in, &s) : get_last(in, &s);
        if (r < 0 || s.series < 1)
                return -EBADMSG;
        if (s.n == 1)
                s.min = s.max = s.mean = s.d;
        *ret = s;
        return 1;
}

void sample_add(struct sample *sum, const struct sample *s) {
        double n = (double) sum->n, more = (double) s->n;

        if (sum->n == 0) {
                *sum = *s;
                return;
        }
        if (isnan(sum->mean) || isnan(s->mean)) /* a NaN says nothing about the others */
                sum->mean = isnan(sum->mean) ? s->mean : sum->mean;
        else
                sum->mean = sum->mean < s->mean || sum->mean > s->mean
                                    ? sum->mean * (n / (n + more)) + s->mean * (more / (n + more))
                                    : sum->mean;
        sum->min = fmin(sum->min, s->min);
        sum->max = fmax(sum->max, s->max);
        sum->n += s->n;
        if (s->ms >= sum->ms) {
                sum->ms = s->ms;
                sum->is_int = s->is_int;
                sum->i = s->i;
                sum->d = s->d;
        }
}
