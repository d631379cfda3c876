/* SPDX-License-Identifier: Apache-2.0 */
#include <stdalign.h>

#include "unpack_memory.h"

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

static void *take(void *userdata, size_t size) {
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
        *a = (struct unpack_memory){ .allocator = { .alloc = take, .free = give_back, .allocator_data = a },
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
