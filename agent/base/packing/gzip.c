/* SPDX-License-Identifier: Apache-2.0 */
#include "gzip.h"

#include <assert.h>
#include <limits.h>
#define ZLIB_CONST /* input is not written to */
#include <zlib.h>

#include "grow.h"

/* --- A body at once ----------------------------------------------------------------------------------- */

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
        z.next_in = data;
        z.avail_in = (uInt) len;
        z.next_out = out;
        z.avail_out = (uInt) room;
        r = deflate(&z, Z_FINISH);
        n = z.total_out;
        (void) deflateEnd(&z);
        return r == Z_STREAM_END ? n : 0;
}

/* --- A stream of parts -------------------------------------------------------------------------------- */

#define STREAM_WINDOW_BITS  (16 + 15) /* 16: with gzip's header and trailer (zlib.h, deflateInit2) */
#define STREAM_MEMORY_LEVEL 8
#define STREAM_LEVEL        1 /* stacks repeat themselves closely */
#define STREAM_ROOM         ((size_t) 16 * 1024)

struct pack {
        z_stream z;
        uint8_t *out;
        size_t size;
};

int pack_new(struct pack **ret) {
        struct pack *p = calloc(1, sizeof(*p));

        if (!p)
                return -ENOMEM;
        if (deflateInit2(&p->z, STREAM_LEVEL, Z_DEFLATED, STREAM_WINDOW_BITS, STREAM_MEMORY_LEVEL,
                         Z_DEFAULT_STRATEGY) != Z_OK) {
                free(p);
                return -ENOMEM;
        }
        *ret = p;
        return 0;
}

struct pack *pack_free(struct pack *p) {
        if (!p)
                return NULL;
        (void) deflateEnd(&p->z); /* it says whether something was left inside */
        free(p->out);
        free(p);
        return NULL;
}

int pack_add(struct pack *p, const void *data, size_t len, bool last, const uint8_t **ret, size_t *ret_len) {
        int r, z;

        assert(len <= UINT_MAX);
        p->z.next_in = data;
        p->z.avail_in = (uInt) len;
        do {
                r = grow(&p->out, &p->size, p->z.total_out + STREAM_ROOM, 1);
                if (r < 0)
                        return r;
                p->z.next_out = p->out + p->z.total_out;
                p->z.avail_out = (uInt) MIN(p->size - p->z.total_out, (size_t) UINT_MAX);
                z = deflate(&p->z, last ? Z_FINISH : Z_SYNC_FLUSH);
        } while (p->z.avail_out == 0);
        assert(z == (last ? Z_STREAM_END : Z_OK));
        *ret = p->out;
        *ret_len = p->z.total_out;
        return 0;
}

/* --- Back --------------------------------------------------------------------------------------------- */


#define WINDOW_GZIP (16 + MAX_WBITS) /* zlib.h: the gzip format only */

static void z_end(z_stream *z) {
        (void) inflateEnd(z);
}

/* ret_used: one member alone, and how long it is; NULL: all of them. */
static int inflate_members(const void *data, size_t len, size_t max, size_t *ret_used, uint8_t **ret,
                           size_t *ret_len) {
        _cleanup_free_ uint8_t *out = NULL;
        _cleanup_(z_end) z_stream z = { .next_in = data, .avail_in = (uInt) len };
        size_t size = 0, done = 0;
        int rc;

        if (len > UINT32_MAX || inflateInit2(&z, WINDOW_GZIP) != Z_OK)
                return -ENOMEM;
        for (;;) {
                if (done == size) {
                        uint8_t *more;

                        if (size == max)
                                return -E2BIG;
                        size = MIN(max, size > 0 ? 2 * size : MAX((size_t) 4096, 4 * len));
                        more = realloc(out, size);
                        if (!more)
                                return -ENOMEM;
                        out = more;
                }
                z.next_out = out + done;
                z.avail_out = (uInt) (size - done);
                rc = inflate(&z, Z_NO_FLUSH);
                done = size - z.avail_out;
                if (rc == Z_STREAM_END && (ret_used || z.avail_in == 0))
                        break;
                if (rc == Z_STREAM_END)
                        rc = inflateReset(&z) == Z_OK ? Z_OK : Z_MEM_ERROR; /* the next member begins here */
                else if (rc == Z_OK && z.avail_out > 0)
                        rc = Z_BUF_ERROR; /* with room left, more input was wanted */
                if (rc != Z_OK)
                        return rc == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
        }
        if (ret_used)
                *ret_used = len - z.avail_in;
        *ret_len = done;
        *ret = TAKE_PTR(out);
        return 0;
}

int inflate_gzip(const void *data, size_t len, size_t max, uint8_t **ret, size_t *ret_len) {
        return inflate_members(data, len, max, NULL, ret, ret_len);
}

int inflate_gzip_member(const void *data, size_t len, size_t max, size_t *ret_used, uint8_t **ret,
                        size_t *ret_len) {
        return inflate_members(data, len, max, ret_used, ret, ret_len);
}
