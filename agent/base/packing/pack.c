/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <zlib.h>

#include "pack.h"

#define WINDOW_BITS  (16 + 15) /* 16: with gzip's header and trailer (zlib.h, deflateInit2) */
#define MEMORY_LEVEL 8
#define LEVEL        1 /* stacks repeat themselves closely */

struct pack {
        z_stream z;
        uint8_t *out;
        size_t size, max_in, max_out;
};

int pack_new(size_t max_in, size_t max_out, struct pack **ret) {
        struct pack *p = calloc(1, sizeof(*p));

        if (!p)
                return -ENOMEM;
        if (deflateInit2(&p->z, LEVEL, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
                free(p);
                return -ENOMEM;
        }
        p->max_in = max_in;
        p->max_out = max_out;
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

static int more_room(struct pack *p) {
        size_t size = MIN(MAX(p->size * 2, (size_t) 16 * 1024), p->max_out);
        uint8_t *out;

        if (size == p->size)
                return -E2BIG;
        out = realloc(p->out, size);
        if (!out)
                return -ENOMEM;
        p->out = out;
        p->z.next_out = out + p->z.total_out;
        p->z.avail_out = (uInt) (size - p->z.total_out);
        p->size = size;
        return 0;
}

static int work(struct pack *p, int flush) {
        int r = 0, z;

        do {
                if (p->z.avail_out == 0)
                        r = more_room(p);
                if (r < 0)
                        return r;
                z = deflate(&p->z, flush);
        } while (flush == Z_FINISH ? z != Z_STREAM_END : p->z.avail_in > 0);
        return 0;
}

int pack_add(struct pack *p, const char *data, size_t len) {
        if (len > p->max_in - p->z.total_in || len > UINT_MAX)
                return -E2BIG;
        p->z.next_in = (Bytef *) (uintptr_t) data; /* zlib only reads it */
        p->z.avail_in = (uInt) len;
        return work(p, Z_NO_FLUSH);
}

int pack_end(struct pack *p, const uint8_t **ret, size_t *ret_len) {
        int r = work(p, Z_FINISH);

        if (r < 0)
                return r;
        *ret = p->out;
        *ret_len = p->z.total_out;
        return 0;
}
