/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Memory for unpacked messages, with a limit: two bytes of a message can ask protobuf-c for 150, so that the
 * size of a message alone bounds nothing. Nothing is freed one by one; unpack_memory_reset() forgets all at
 * once and keeps one block of the usual size, so that steady state allocates nothing.
 */
#include <protobuf-c/protobuf-c.h>

#include "base.h"

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
