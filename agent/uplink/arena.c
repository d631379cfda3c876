/* SPDX-License-Identifier: Apache-2.0 */
#include "arena.h"

struct arena_chunk {
        struct arena_chunk *next;
        size_t size, used;
        _Alignas(16) uint8_t data[];
};

static struct arena_chunk *new_chunk(struct arena *a, size_t size) {
        struct arena_chunk *c;

        size = MAX(size, (size_t) ARENA_CHUNK);
        c = malloc(sizeof(*c) + size);
        if (!c)
                return NULL;
        *c = (struct arena_chunk) { .size = size };
        if (a->current) {
                c->next = a->current->next;
                a->current->next = c;
        } else {
                c->next = a->chunks;
                a->chunks = c;
        }
        return c;
}

void *arena_alloc(struct arena *a, size_t size) {
        struct arena_chunk *c = a->current ? a->current : a->chunks;
        void *p;

        if (size > SIZE_MAX / 2)
                return NULL;
        size = (size + 15) & ~(size_t) 15;
        while (c && c->size - c->used < size)
                c = c->next;
        if (!c)
                c = new_chunk(a, size);
        if (!c)
                return NULL;
        a->current = c;
        p = c->data + c->used;
        c->used += size;
        return memset(p, 0, size);
}

/*
 * Bytes of the UTF-8 sequence at p (RFC 3629: no surrogates, nothing overlong, up to U+10FFFF); 0: there
 * is none.
 */
static size_t utf8_len(const uint8_t *p) {
        uint32_t c;
        size_t n;

        if (p[0] < 0x80)
                return 1;
        n = (p[0] & 0xe0) == 0xc0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : (p[0] & 0xf8) == 0xf0 ? 4 : 0;
        if (n == 0)
                return 0;
        c = p[0] & (0x7fu >> n);
        for (size_t i = 1; i < n; i++) {
                if ((p[i] & 0xc0) != 0x80) /* stops at the NUL, too */
                        return 0;
                c = c << 6 | (p[i] & 0x3fu);
        }
        if (c < (n == 2 ? 0x80u : n == 3 ? 0x800u : 0x10000u) || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
                return 0;
        return n;
}

char *arena_text(struct arena *a, const char *text) {
        size_t len = strlen(text);
        char *copy = arena_alloc(a, len + 1);

        if (!copy)
                return NULL;
        memcpy(copy, text, len);
        for (size_t i = 0; i < len;) {
                size_t n = utf8_len((const uint8_t *) copy + i);

                if (n == 0)
                        copy[i] = '?';
                i += MAX(n, (size_t) 1);
        }
        return copy;
}

void arena_clear(struct arena *a) {
        while (a->chunks) {
                struct arena_chunk *c = a->chunks;

                a->chunks = c->next;
                free(c);
        }
        a->current = NULL;
}
