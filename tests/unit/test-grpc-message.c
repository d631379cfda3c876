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

static unsigned status_of(const char *value) {
        struct grpc_head h = { 0 };

        grpc_head_take(&h, "grpc-status", value);
        ASSERT_TRUE(h.has_status);
        return h.status;
}

static void test_heads(void) {
        struct grpc_head h = { 0 };

        grpc_head_take(&h, ":status", "200");
        grpc_head_take(&h, "content-type", "text/html");
        ASSERT_FALSE(h.is_grpc || h.has_status);
        ASSERT_EQ(h.http, 200);
        grpc_head_take(&h, "content-type", "application/grpc+proto");
        grpc_head_take(&h, "grpc-encoding", "gzip");
        grpc_head_take(&h, "grpc-status", "5");
        grpc_head_take(&h, "grpc-status", "14"); /* the trailers' word holds */
        grpc_head_take(&h, "grpc-message", "a%20b%0a%C3%zz%");
        ASSERT_TRUE(h.is_grpc && h.has_status);
        ASSERT_STREQ(grpc_status_name(h.status), "UNAVAILABLE");
        ASSERT_STREQ(h.message, "a b??%zz%");
        ASSERT_EQ(status_of(""), GRPC_UNKNOWN);
        ASSERT_EQ(status_of("17"), GRPC_UNKNOWN);
        ASSERT_EQ(status_of("016"), GRPC_UNKNOWN);
        ASSERT_EQ(status_of("-1"), GRPC_UNKNOWN);
        ASSERT_STREQ(grpc_status_name(status_of("16")), "UNAUTHENTICATED");
        ASSERT_STREQ(grpc_status_name(99), "UNKNOWN");
}

static void test_long_message(void) {
        struct grpc_head h = { 0 };
        char value[2048];

        memset(value, 'x', sizeof(value) - 1);
        value[sizeof(value) - 1] = '\0';
        grpc_head_take(&h, "grpc-message", value);
        ASSERT_EQ(strlen(h.message), GRPC_WHY_MAX - 1);
}

TEST_MAIN(test_frames, test_heads, test_long_message)
