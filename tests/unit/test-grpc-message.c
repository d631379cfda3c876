/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_session.h"
#include "test.h"

static void test_frames(void) {
        uint8_t data[16] = { 0, 0, 0, 0, 3, 'a', 'b', 'c', 1, 0, 0, 0, 0 };
        struct grpc_frame f = { 0 };

        for (size_t n = 0; n < 8; n++)
                ASSERT_EQ(grpc_frame_next(data, n, 100, &f), 0);
        ASSERT_EQ(grpc_frame_next(data, 8, 100, &f), 1);
        ASSERT_TRUE(f.data == data + 5 && f.len == 3 && !f.packed);
        ASSERT_EQ(grpc_frame_next(data, 8, 3, &f), 1);
        ASSERT_EQ(grpc_frame_next(data, 5, 2, &f), -EMSGSIZE);
        ASSERT_EQ(grpc_frame_next(data + 8, 5, 100, &f), 1);
        ASSERT_TRUE(f.packed && f.len == 0);
        data[0] = 2;
        ASSERT_EQ(grpc_frame_next(data, 1, 100, &f), -EBADMSG);
        memcpy(data, "\0\xff\xff\xff\xff", 5);
        ASSERT_EQ(grpc_frame_next(data, 5, SIZE_MAX / 2, &f), 0); /* 4 GiB do not wrap */
        ASSERT_EQ(grpc_frame_next(data, 5, 1 << 20, &f), -EMSGSIZE);
        grpc_frame_head(data, 0x01020304);
        ASSERT_TRUE(memcmp(data, "\0\x01\x02\x03\x04", 5) == 0);
}

static struct grpc_head heads(const char *lines) {
        struct grpc_head h = { 0 };

        while (*lines) {
                size_t n = strcspn(lines, "\n") + 1;

                grpc_head_take(&h, lines, n);
                lines += n;
        }
        return h;
}

static void test_heads(void) {
        struct grpc_head h;

        h = heads("HTTP/2 200\r\nContent-Type: application/grpc+proto\r\nGRPC-Encoding:gzip\r\nx: "
                  "y\r\n\r\nGrpc-Status: "
                  "14 \r\ngrpc-message:a%20b%0a%C3%zz%\r\n");
        ASSERT_TRUE(h.is_grpc && h.has_status);
        ASSERT_EQ(h.status, GRPC_UNAVAILABLE);
        ASSERT_STREQ(h.message, "a b??%zz%");
        h = heads("content-type: text/html\r\n");
        ASSERT_FALSE(h.is_grpc || h.has_status);
        ASSERT_EQ(heads("grpc-status:\r\n").status, GRPC_UNKNOWN);
        ASSERT_EQ(heads("grpc-status: 17\r\n").status, GRPC_UNKNOWN);
        ASSERT_EQ(heads("grpc-status: 016\r\n").status, GRPC_UNKNOWN);
        ASSERT_EQ(heads("grpc-status: -1\r\n").status, GRPC_UNKNOWN);
        ASSERT_EQ(heads("grpc-status: 16\r\n").status, GRPC_UNAUTHENTICATED);
        ASSERT_EQ(heads("grpc-status: 5\r\ngrpc-status: 0\r\n").status,
                  GRPC_OK); /* the trailers' word holds */
        ASSERT_STREQ(grpc_status_name(GRPC_UNAUTHENTICATED), "UNAUTHENTICATED");
        ASSERT_STREQ(grpc_status_name((enum grpc_status) 99), "UNKNOWN");
}

static void test_long_message(void) {
        char line[2048] = "grpc-message: ";
        struct grpc_head h = { 0 };

        memset(line + 14, 'x', sizeof(line) - 14);
        grpc_head_take(&h, line, sizeof(line)); /* without an end */
        ASSERT_EQ(strlen(h.message), GRPC_WHY_MAX - 1);
}

TEST_MAIN(test_frames, test_heads, test_long_message)
