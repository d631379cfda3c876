/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The protobuf wire format, field by field, without building anything. It walks an envelope,
 * and it looks at a message before protobuf-c does: protobuf-c recurses as deep as the sender likes and
 * merges a message field that is given twice in quadratic time. Source: protobuf.dev, "Encoding". Pure; the
 * bytes are hostile input.
 */
#include <protobuf-c/protobuf-c.h>

#include "base.h"

struct wire {
        const uint8_t *next, *end;
};

enum wire_type {
        WIRE_VARINT = 0,
        WIRE_FIXED64 = 1,
        WIRE_BYTES = 2,
        WIRE_FIXED32 = 5
};

struct wire_field {
        uint32_t number;
        enum wire_type type;
        const uint8_t *data; /* the content: of WIRE_BYTES without its length */
        size_t len;
};

/*
 * 1: one field; 0: the end; -EBADMSG: cut off, a number out of range, or a group (not part of proto3).
 * w->next then stands on the bad field.
 */
int wire_next(struct wire *w, struct wire_field *ret);

/*
 * Whether a message is well-formed down to its leaves, at most depth messages deep (-ELOOP when deeper),
 * with every singular message field given at most once (-EBADMSG).
 */
int wire_check(const ProtobufCMessageDescriptor *d, const uint8_t *data, size_t len, unsigned depth);

/*
 * Memory for unpacked messages, with a limit: two bytes of a message can ask protobuf-c for 150, so that the
 * size of a message alone bounds nothing. Nothing is freed one by one; unpack_memory_reset() forgets all at
 * once and keeps one block of the usual size, so that steady state allocates nothing.
 */

struct unpack_block;

struct unpack_memory {
        ProtobufCAllocator allocator; /* to be given to protobuf-c */
        struct unpack_block *blocks;  /* the newest first */
        size_t used, size;            /* of the newest block */
        size_t total, max;            /* of all blocks */
        bool exhausted; /* an allocation was refused since the last reset, because of max or for want of
                           memory */
};

/* In place: it must not be moved afterwards. */
void unpack_memory_init(struct unpack_memory *a, size_t max);
void unpack_memory_reset(struct unpack_memory *a);
void unpack_memory_clear(struct unpack_memory *a);
#define _cleanup_unpack_memory_ _cleanup_(unpack_memory_clear)
