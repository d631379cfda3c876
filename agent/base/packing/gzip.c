/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <zlib.h>

#include "gzip.h"

#define WINDOW_BITS (16 + 14) /* 16: with gzip's header and trailer (zlib.h, deflateInit2) */
#define MEMORY_LEVEL 7        /* with the window: 128 KiB while it works */
#define WORKSHOP (192 * 1024) /* more than that; what is not used is never touched */

/* zlib asks for five pieces and gives all back together: one of ours, which the kernel then gets at once. */
struct workshop {
        uint8_t *memory;
        size_t used;
};

static void *take_piece(void *opaque, unsigned n, unsigned size) {
        struct workshop *w = opaque;
        size_t bytes = ((size_t) n * size + 15) & ~(size_t) 15;
        void *p = w->memory + w->used;

        if (bytes > WORKSHOP - w->used)
                return NULL;
        w->used += bytes;
        return p;
}

static void leave_piece(void *opaque, void *piece) {
        (void) opaque, (void) piece;
}

size_t gzip_pack(const void *data, size_t len, void *out, size_t size) {
        size_t room = MIN(size, len - len / 10);
        _cleanup_free_ uint8_t *memory = NULL;
        struct workshop w = { 0 };
        z_stream z = { .zalloc = take_piece, .zfree = leave_piece, .opaque = &w };
        size_t n;
        int r;

        if (len < GZIP_LEAST || len > UINT_MAX)
                return 0;
        w.memory = memory = malloc(WORKSHOP);
        if (!memory)
                return 0;
        if (deflateInit2(&z, 1, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
                return 0;
        z.next_in = (Bytef *) (uintptr_t) data; /* zlib only reads it */
        z.avail_in = (uInt) len;
        z.next_out = out;
        z.avail_out = (uInt) room;
        r = deflate(&z, Z_FINISH);
        n = z.total_out;
        (void) deflateEnd(&z);
        return r == Z_STREAM_END ? n : 0;
}
