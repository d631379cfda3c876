/* SPDX-License-Identifier: Apache-2.0 */
/* What is packed is unpacked by zlib's own reader; what does not pay is left as it is. */
#include <zlib.h>

#include "gzip.h"
#include "test.h"

#define LARGE (1024 * 1024)
static uint8_t data[LARGE], out[LARGE], back[LARGE + 1];

static size_t unpack(size_t n) {
        z_stream z = { .next_in = out, .avail_in = (uInt) n, .next_out = back, .avail_out = sizeof(back) };

        ASSERT_EQ(inflateInit2(&z, 16 + MAX_WBITS), Z_OK); /* gzip's own header and no other */
        ASSERT_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
        ASSERT_EQ(z.avail_in, 0);
        ASSERT_EQ(inflateEnd(&z), Z_OK);
        return z.total_out;
}

static void test_packs_what_repeats(void) {
        static const size_t lengths[] = { GZIP_LEAST, 15000, 100000, LARGE };

        for (size_t i = 0; i < sizeof(data); i++)
                data[i] = (uint8_t) ((size_t) "system.network.io"[i % 17] + (i / 100) % 3);
        for (size_t i = 0; i < ELEMENTSOF(lengths); i++) {
                size_t n = gzip_pack(data, lengths[i], out, sizeof(out));

                ASSERT_TRUE(n > 0 && n < lengths[i] / 4);
                ASSERT_EQ(unpack(n), lengths[i]);
                ASSERT_EQ(memcmp(back, data, lengths[i]), 0);
        }
}

static void test_leaves_what_does_not_pay(void) {
        uint64_t x = 88172645463325252u;

        ASSERT_EQ(gzip_pack(data, GZIP_LEAST - 1, out, sizeof(out)), 0);
        for (size_t i = 0; i < sizeof(data); i++) {
                x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                data[i] = (uint8_t) (x >> 32);
        }
        ASSERT_EQ(gzip_pack(data, 100000, out, sizeof(out)), 0);
        memset(data, 0, 100000);
        ASSERT_EQ(gzip_pack(data, 100000, out, 50), 0); /* no room is no failure */
        ASSERT_TRUE(gzip_pack(data, 100000, out, sizeof(out)) > 0);
}

TEST_MAIN(test_packs_what_repeats, test_leaves_what_does_not_pay)
