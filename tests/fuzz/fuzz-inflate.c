/* SPDX-License-Identifier: Apache-2.0 */
/* Content-Encoding: gzip from anyone; the bound holds. The bytes also go in behind a good header, so that
 * the inflater is reached. */
#include "gzip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define MOST 100000

static void try(const uint8_t *data, size_t len) {
        uint8_t *out = NULL;
        size_t n = 0;
        int r;

        r = inflate_gzip(data, len, MOST, &out, &n);
        if (r == 0 ? n > MOST || !out : (r != -EBADMSG && r != -E2BIG) || out)
                abort();
        free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
        static const uint8_t head[10] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3 };
        uint8_t *whole = malloc(len + sizeof(head));

        if (!whole)
                return 0;
        memcpy(whole, head, sizeof(head));
        if (len > 0)
                memcpy(whole + sizeof(head), data, len);
        try(data, len);
        try(whole, len + sizeof(head));
        free(whole);
        return 0;
}
