/* SPDX-License-Identifier: Apache-2.0 */
#include "samples.h"

#include "grow.h"

enum { KIND_INT, KIND_DOUBLE, KIND_TIME = 3 };

/* --- Writing --------------------------------------------------------------------------------------- */

#define ENTRY_MAX 48 /* a time, a step and a value take less */

static uint64_t zigzag(int64_t v) {
        return ((uint64_t) v << 1) ^ (uint64_t) (v >> 63);
}

/* Around the end of the numbers, as what is read is added up. */
static int64_t distance_of(int64_t from, int64_t to) {
        return (int64_t) ((uint64_t) to - (uint64_t) from);
}

static int64_t unzigzag(uint64_t v) {
        return (int64_t) (v >> 1 ^ (0 - (v & 1)));
}

static void put_varint(struct samples_out *o, uint64_t v) {
        for (; v >= 0x80; v >>= 7)
                o->data[o->len++] = (uint8_t) (v | 0x80);
        o->data[o->len++] = (uint8_t) v;
}

void samples_begin(struct samples_out *o, int64_t base) {
        o->len = 0;
        o->series = 0;
        o->base = o->ms = base;
}

int samples_put(struct samples_out *o, const struct stored_sample *s) {
        int r = grow(&o->data, &o->size, o->len + ENTRY_MAX, sizeof(*o->data));

        if (r < 0)
                return r;
        if (s->ms != o->ms) {
                put_varint(o, KIND_TIME);
                put_varint(o, zigzag(distance_of(o->base, s->ms)));
                o->ms = s->ms;
        }
        put_varint(o, zigzag(distance_of(o->series, s->series)) << 2 | (s->is_int ? KIND_INT : KIND_DOUBLE));
        if (s->is_int)
                put_varint(o, zigzag(s->i));
        else {
                memcpy(o->data + o->len, &s->d, sizeof(s->d)); /* x86-64 only: little-endian */
                o->len += sizeof(s->d);
        }
        o->series = s->series;
        return 0;
}

void samples_clear(struct samples_out *o) {
        free(o->data);
        *o = (struct samples_out) { 0 };
}

/* --- Reading --------------------------------------------------------------------------------------- */

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

static int get_value(struct samples_in *in, struct stored_sample *s) {
        uint64_t v;

        if (s->is_int) {
                if (get_varint(in, &v) < 0)
                        return -EBADMSG;
                s->i = unzigzag(v);
                s->d = (double) s->i;
                return 0;
        }
        if ((size_t) (in->end - in->next) < sizeof(s->d))
                return -EBADMSG;
        memcpy(&s->d, in->next, sizeof(s->d));
        in->next += sizeof(s->d);
        return 0;
}

int samples_next(struct samples_in *in, struct stored_sample *ret) {
        struct stored_sample s = { 0 };
        uint64_t head, distance;

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
        if (s.series < 1 || (head & 3) > KIND_DOUBLE || get_value(in, &s) < 0)
                return -EBADMSG;
        *ret = s;
        return 1;
}
