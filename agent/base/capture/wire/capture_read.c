/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_part.h"

#include "gzip.h"
#include "unpack.h"

#define MEMORY_MAX                                                                                          \
        (64u * 1024 * 1024) /* that a part may ask protobuf-c for; tpu-stack's are of 64 KiB mostly */
#define CAPTURE_PARTS 1u                  /* field of Capture */
#define VERSION_TAG   0x08                /* field 1 of a part: it stands first */

/* As a tag it is none: there is no wire type 7. */
static bool is_gzip(const uint8_t *data, size_t len) {
        return len > 2 && data[0] == 0x1f && data[1] == 0x8b;
}

void capture_reader_init(struct capture_reader *r, const void *data, size_t len,
                         enum capture_detail detail) {
        *r = (struct capture_reader){ .detail = detail, .data = data, .len = len };
}

void capture_reader_clear(struct capture_reader *r) {
        free(r->member);
        free(r->strings.items);
        free(r->frames.items);
        free(r->stacks.items);
        free(r->kinds);
        *r = (struct capture_reader){ 0 };
}

static int read_part(struct capture_reader *r, const struct wire_field *part) {
        _cleanup_unpack_memory_ struct unpack_memory memory;
        const Capture__Part *m;
        int k;

        unpack_memory_init(&memory, MEMORY_MAX);
        m = capture__part__unpack(&memory.allocator, part->len, part->data);
        if (!m)
                return memory.exhausted ? capture_wrong(r, -E2BIG, NULL, "more than there can be")
                                        : capture_wrong(r, -EPROTO, NULL, "cut off, or no protobuf");
        if (m->version > CAPTURE_VERSION)
                return capture_wrong(r, -EPROTONOSUPPORT, "version", "later than what this program knows");
        k = capture_part_stacks(r, m);
        return k < 0 ? k : capture_part_host(r, m);
}

/* Whether the first part of a capture is this. */
static bool begins(const struct wire_field *part) {
        return part->len > 1 && part->data[0] == VERSION_TAG && part->data[1] != 0;
}

static int next_member(struct capture_reader *r) {
        size_t used = r->len, len = r->len;
        int k;

        free(r->member);
        r->member = NULL;
        r->parts = (struct wire){ r->data, r->data + r->len };
        if (is_gzip(r->data, r->len)) {
                k = inflate_gzip_member(r->data, r->len, CAPTURE_STREAM_MAX + 1, &used, &r->member, &len);
                if (k < 0)
                        return capture_wrong(r, k == -EBADMSG ? -EPROTO : k, "gzip",
                                     k == -E2BIG ? "longer than 4 MiB" : "damaged, or cut off");
                r->parts = (struct wire){ r->member, r->member + len };
        }
        r->data += used;
        r->len -= used;
        return 0;
}

/* The next part that belongs to this capture; 0: there is none. */
static int next_part(struct capture_reader *r, struct wire_field *ret) {
        while (r->parts.next < r->parts.end || r->len > 0) {
                struct wire from = r->parts;
                int k;

                if (r->parts.next == r->parts.end) {
                        k = next_member(r);
                        if (k < 0)
                                return k;
                        continue;
                }
                if (wire_next(&r->parts, ret) < 0)
                        return capture_wrong(r, -EPROTO, NULL, "cut off, or no protobuf");
                if (ret->number != CAPTURE_PARTS || ret->type != WIRE_BYTES)
                        return capture_wrong(r, -EPROTO, NULL, "this is no capture");
                if (r->part > 0 && begins(ret)) {
                        r->parts = from;
                        return 0;
                }
                if (r->part++ == 0 && !begins(ret))
                        return capture_wrong(r, -EPROTO, "version", "missing: this is no capture");
                r->bytes += (size_t) (r->parts.next - from.next); /* an empty part has some, too */
                return 1;
        }
        return 0;
}

int capture_reader_next(struct capture_reader *r, struct host_capture *c, struct stack_table *t,
                        char why[static CAPTURE_WHY_MAX]) {
        struct wire_field part;
        int k;

        host_capture_init(c);
        c->detailed = r->detail == CAPTURE_SHOWN;
        r->c = c;
        r->t = t;
        r->why = why;
        why[0] = '\0';
        r->part = r->bytes = r->strings.n = r->frames.n = r->stacks.n = 0;
        while ((k = next_part(r, &part)) > 0) {
                if (r->bytes > CAPTURE_STREAM_MAX)
                        return capture_wrong(r, -E2BIG, NULL, "the capture is longer than 4 MiB");
                k = read_part(r, &part);
                if (k < 0)
                        return k;
        }
        if (k < 0 || r->part == 0)
                return k;
        if (r->detail == CAPTURE_DIAGNOSED)
                host_capture_drop_others(c);
        return 1;
}

int capture_read(const void *data, size_t len, enum capture_detail detail, struct host_capture *c,
                 struct stack_table *t, char why[static CAPTURE_WHY_MAX]) {
        _cleanup_capture_reader_ struct capture_reader r;
        int k;

        capture_reader_init(&r, data, len, detail);
        k = capture_reader_next(&r, c, t, why);
        if (k == 1 && (r.len > 0 || r.parts.next < r.parts.end))
                return capture_wrong(&r, -EPROTO, "version", "a second capture begins here");
        return k == 0 ? capture_wrong(&r, -EPROTO, NULL, "there is nothing in it") : MIN(k, 0);
}
