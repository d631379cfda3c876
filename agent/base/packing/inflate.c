/* SPDX-License-Identifier: Apache-2.0 */
#define ZLIB_CONST /* input is not written to */
#include <zlib.h>

#include "inflate.h"

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
