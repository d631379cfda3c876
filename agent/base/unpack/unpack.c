/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack.h"

#include <stdalign.h>

/* --- Fields ------------------------------------------------------------------------------------------- */

#define VARINT_MAX 10 /* bytes of a 64-bit varint */
#define FIELD_NUMBER_MAX 0x1fffffff

static int varint(const uint8_t **p, const uint8_t *end, uint64_t *ret) {
        uint64_t v = 0;

        for (unsigned i = 0; i < VARINT_MAX && *p + i < end; i++) {
                uint8_t b = (*p)[i];

                if (i == VARINT_MAX - 1 && b > 1)
                        return -EBADMSG;
                v |= (uint64_t) (b & 0x7f) << (7 * i);
                if (!(b & 0x80)) {
                        *p += i + 1;
                        *ret = v;
                        return 0;
                }
        }
        return -EBADMSG;
}

/* How long the content of a field is; *p is moved behind a length prefix. */
static int content(const uint8_t **p, const uint8_t *end, uint64_t type, uint64_t *ret) {
        const uint8_t *behind = *p;
        uint64_t ignored;
        int r;

        switch (type) {
        case WIRE_VARINT:
                r = varint(&behind, end, &ignored);
                *ret = (uint64_t) (behind - *p);
                return r;
        case WIRE_FIXED64:
                *ret = 8;
                return 0;
        case WIRE_BYTES:
                return varint(p, end, ret);
        case WIRE_FIXED32:
                *ret = 4;
                return 0;
        default: /* groups and the two numbers that mean nothing */
                return -EBADMSG;
        }
}

int wire_next(struct wire *w, struct wire_field *ret) {
        const uint8_t *p = w->next;
        uint64_t tag, len = 0;

        if (p == w->end)
                return 0;
        if (varint(&p, w->end, &tag) < 0 || tag >> 3 == 0 || tag >> 3 > FIELD_NUMBER_MAX)
                return -EBADMSG;
        if (content(&p, w->end, tag & 7, &len) < 0 || len > (uint64_t) (w->end - p))
                return -EBADMSG;
        *ret = (struct wire_field){
                .number = (uint32_t) (tag >> 3),
                .type = (enum wire_type)(tag & 7),
                .data = p,
                .len = (size_t) len,
        };
        w->next = p + len;
        return 1;
}

int wire_check(const ProtobufCMessageDescriptor *d, const uint8_t *data, size_t len, unsigned depth) {
        struct wire w = { .next = data, .end = data + len };
        struct wire_field f;
        uint64_t given = 0; /* singular message fields seen; the contract's numbers are all below 64 */
        int r;

        if (depth == 0)
                return -ELOOP;
        while ((r = wire_next(&w, &f)) > 0) {
                const ProtobufCFieldDescriptor *fd = protobuf_c_message_descriptor_get_field(d, f.number);

                if (!fd || fd->type != PROTOBUF_C_TYPE_MESSAGE)
                        continue;
                if (f.type != WIRE_BYTES)
                        return -EBADMSG;
                if (fd->label != PROTOBUF_C_LABEL_REPEATED) {
                        if (f.number > 63 || given & (UINT64_C(1) << f.number))
                                return -EBADMSG;
                        given |= UINT64_C(1) << f.number;
                }
                r = wire_check(fd->descriptor, f.data, f.len, depth - 1);
                if (r < 0)
                        return r;
        }
        return r;
}

/* --- Memory ------------------------------------------------------------------------------------------- */

#define BLOCK_SIZE ((size_t) 64 * 1024)
#define ALIGN alignof(max_align_t)

struct unpack_block {
        struct unpack_block *older;
        size_t size;
        alignas(max_align_t) uint8_t data[];
};

static bool add_block(struct unpack_memory *a, size_t at_least) {
        size_t size = MAX(at_least, BLOCK_SIZE);
        struct unpack_block *b;

        if (size > a->max - a->total)
                return false;
        b = malloc(sizeof(*b) + size);
        if (!b)
                return false;
        b->older = a->blocks;
        b->size = size;
        a->blocks = b;
        a->used = 0;
        a->size = size;
        a->total += size;
        return true;
}

static void *take_memory(void *userdata, size_t size) {
        struct unpack_memory *a = userdata;
        void *p;

        if (size <= a->max) { /* also keeps the rounding from overflowing */
                size = (size + ALIGN - 1) & ~(ALIGN - 1);
                if ((a->blocks && a->size - a->used >= size) || add_block(a, size)) {
                        p = a->blocks->data + a->used;
                        a->used += size;
                        return p;
                }
        }
        a->exhausted = true;
        return NULL;
}

static void give_back(void *userdata, void *p) {
        (void) userdata;
        (void) p;
}

void unpack_memory_init(struct unpack_memory *a, size_t max) {
        *a = (struct unpack_memory){ .allocator = { take_memory, give_back, a },
                                     .max = max };
}

void unpack_memory_reset(struct unpack_memory *a) {
        while (a->blocks && (a->blocks->older || a->blocks->size > BLOCK_SIZE)) {
                struct unpack_block *b = a->blocks;

                a->blocks = b->older;
                free(b);
        }
        a->size = a->total = a->blocks ? a->blocks->size : 0;
        a->used = 0;
        a->exhausted = false;
}

void unpack_memory_clear(struct unpack_memory *a) {
        unpack_memory_reset(a);
        free(a->blocks);
        a->blocks = NULL;
        a->size = a->total = 0;
}
