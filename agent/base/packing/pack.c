/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <limits.h>
#include <zlib.h>

#include "grow.h"
#include "pack.h"

#define WINDOW_BITS  (16 + 15) /* 16: with gzip's header and trailer (zlib.h, deflateInit2) */
#define MEMORY_LEVEL 8
#define LEVEL        1 /* stacks repeat themselves closely */
#define ROOM         ((size_t) 16 * 1024)

struct pack {
        z_stream z;
        uint8_t *out;
        size_t size;
};

int pack_new(struct pack **ret) {
        struct pack *p = calloc(1, sizeof(*p));

        if (!p)
                return -ENOMEM;
        if (deflateInit2(&p->z, LEVEL, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
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
        p->z.next_in = (Bytef *) (uintptr_t) data; /* zlib only reads it */
        p->z.avail_in = (uInt) len;
        do {
                r = grow(&p->out, &p->size, p->z.total_out + ROOM, 1);
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
