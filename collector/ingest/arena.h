/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Memory for unpacked messages, with a limit: two bytes of a request can ask protobuf-c for 150, so that the
 * size of a request alone bounds nothing. Nothing is freed one by one; arena_reset() forgets all at once and
 * keeps one block of the usual size.
 */
#include <protobuf-c/protobuf-c.h>

#include "base.h"

struct arena_block;

struct arena {
        ProtobufCAllocator allocator; /* to be given to protobuf-c */
        struct arena_block *blocks;   /* the newest first */
        size_t used, size;            /* of the newest block */
        size_t total, max;            /* of all blocks */
        bool exhausted; /* an allocation was refused since the last reset, because of max or for want of
                           memory */
};

/* In place: the arena must not be moved afterwards. */
void arena_init(struct arena *a, size_t max);
void arena_reset(struct arena *a);
void arena_clear(struct arena *a);
#define _cleanup_arena_ _cleanup_(arena_clear)
