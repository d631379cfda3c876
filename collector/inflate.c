/* SPDX-License-Identifier: Apache-2.0 */
#define ZLIB_CONST /* input is not written to */
#include <zlib.h>

#include "inflate.h"

#define WINDOW_GZIP (16 + MAX_WBITS) /* zlib.h: the gzip format only */

static void z_end(z_stream *z) {
        (void) inflateEnd(z);
}

int inflate_gzip(const void *data, size_t len, size_t max, uint8_t **ret, size_t *ret_len) {
        _cleanup_free_ uint8_t *out = NULL;
        _cleanup_(z_end) z_stream z = { .next_in = data, .avail_in = (uInt) len };
        size_t size = MIN(max, MAX((size_t) 4096, 4 * len));
        int rc;

        if (len > UINT32_MAX || inflateInit2(&z, WINDOW_GZIP) != Z_OK)
                return -ENOMEM;
        for (;;) {
                uint8_t *more = realloc(out, size);

                if (!more)
                        return -ENOMEM;
                out = more;
                z.next_out = out + z.total_out;
                z.avail_out = (uInt) (size - z.total_out);
                rc = inflate(&z, Z_NO_FLUSH);
                if (rc == Z_STREAM_END)
                        break;
                if (rc != Z_OK || z.avail_out > 0) /* with room left, more input was wanted */
                        return rc == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
                if (size == max)
                        return -E2BIG;
                size = MIN(max, 2 * size);
        }
        if (z.avail_in > 0)
                return -EBADMSG;
        *ret_len = z.total_out;
        *ret = TAKE_PTR(out);
        return 0;
}
