/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_parts.h"

#include "unpack_wire.h"

void capture_parts_clear(struct capture_parts *p) {
        free(p->rest);
        *p = CAPTURE_PARTS_NULL;
}

/* Which array a field is; _WIRE_ARRAY_MAX: none. */
static enum wire_array array_of(uint32_t field) {
        if (field >= 21 && field <= 26)
                return (enum wire_array) (WIRE_FRAME_KIND + (field - 21));
        if (field >= 31 && field <= 36)
                return (enum wire_array) (WIRE_THREAD_STACK + (field - 31));
        return _WIRE_ARRAY_MAX;
}

/* How many numbers there are: each ends in a byte without the upper bit. */
static size_t count_numbers(const uint8_t *data, size_t len) {
        const uint64_t ones = UINT64_C(0x0101010101010101);
        size_t n = 0, i = 0;

        for (uint64_t v; i + sizeof(v) <= len; i += sizeof(v)) {
                memcpy(&v, data + i, sizeof(v));
                n += (((~v >> 7) & ones) * ones) >> 56;
        }
        for (; i < len; i++)
                n += !(data[i] & 0x80);
        return n;
}

static int take_array(struct capture_parts *p, enum wire_array a, const struct wire_field *f,
                      const char **ret_why) {
        if (f->type != WIRE_BYTES || p->arrays[a].next) {
                *ret_why = "an array of numbers that is not in one piece";
                return -EPROTO;
        }
        if (f->len > 0 && f->data[f->len - 1] & 0x80) {
                *ret_why = "an array whose last number is cut off";
                return -EPROTO;
        }
        p->arrays[a] = (struct wire_numbers){ f->data, count_numbers(f->data, f->len) };
        return 0;
}

static int take_field(struct capture_parts *p, const struct wire_field *f, const uint8_t *from,
                      const uint8_t *until, const char **ret_why) {
        enum wire_array a = array_of(f->number);

        if (a != _WIRE_ARRAY_MAX)
                return take_array(p, a, f, ret_why);
        if (f->number != CAPTURE_STRINGS) {
                memcpy(p->rest + p->rest_len, from, (size_t) (until - from));
                p->rest_len += (size_t) (until - from);
                return 0;
        }
        if (f->type != WIRE_BYTES) {
                *ret_why = "strings: not bytes";
                return -EPROTO;
        }
        if (p->n_strings++ == 0)
                p->strings = from;
        return 0;
}

int capture_parts_split(const uint8_t *data, size_t len, struct capture_parts *ret, const char **ret_why) {
        _cleanup_capture_parts_ struct capture_parts p = { .end = data + len, .rest = malloc(len + 1) };
        struct wire w = { data, data + len };
        int r = p.rest ? 1 : -ENOMEM;

        while (r > 0) {
                const uint8_t *from = w.next;
                struct wire_field f;

                if (p.n_strings > 0 && capture_parts_skip_short(&w.next, w.end)) {
                        p.n_strings++;
                        continue;
                }
                r = wire_next(&w, &f);
                if (r > 0 && take_field(&p, &f, from, w.next, ret_why) < 0)
                        return -EPROTO;
        }
        if (r < 0) {
                *ret_why = r == -ENOMEM ? "out of memory" : "not a capture";
                return r == -ENOMEM ? r : -EPROTO;
        }
        *ret = p;
        p = CAPTURE_PARTS_NULL;
        return 0;
}

const char *capture_parts_any_string(struct capture_parts *p, size_t *ret_len) {
        struct wire w = { p->strings, p->end };
        struct wire_field f = { 0 };

        while (wire_next(&w, &f) > 0 && f.number != CAPTURE_STRINGS)
                ; /* others may lie between; all of them are well-formed */
        p->strings = w.next;
        *ret_len = f.len;
        return (const char *) f.data;
}
