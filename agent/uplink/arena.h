/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Memory that is given back all at once. It keeps up to ARENA_KEEP bytes for the next round, so that a
 * steady load allocates nothing; what a rare large request took is freed. Pointers stay valid until
 * arena_reset().
 */
#include "base.h"

#define ARENA_CHUNK (32 * 1024)
#define ARENA_KEEP (256 * 1024)

struct arena_chunk;
struct arena {
        struct arena_chunk *chunks, *current;
};

/* Zeroed, aligned for any type. NULL: out of memory. */
void *arena_alloc(struct arena *a, size_t size);
/*
 * A copy that is valid UTF-8, as protobuf demands of strings: each wrong byte becomes '?'. NULL: out of
 * memory.
 */
char *arena_text(struct arena *a, const char *text);
void arena_reset(struct arena *a);
void arena_clear(struct arena *a);
