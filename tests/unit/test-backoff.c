/* SPDX-License-Identifier: Apache-2.0 */
#include "retry_after.h"
#include "test.h"

static void test_full_jitter(void) {
        ASSERT_EQ(backoff_next(0, 0), 0);
        ASSERT_EQ(backoff_next(0, BACKOFF_BASE), BACKOFF_BASE);
        ASSERT_EQ(backoff_next(0, BACKOFF_BASE + 1), 0);
        ASSERT_EQ(backoff_next(3, 8 * BACKOFF_BASE), 8 * BACKOFF_BASE);
        ASSERT_EQ(backoff_next(1000000, BACKOFF_MAX), BACKOFF_MAX);
        for (unsigned n = 0; n < 100; n++)
                for (uint64_t random = 1; random != 0; random *= 3) {
                        ASSERT_TRUE(backoff_next(n, random) <= BACKOFF_MAX);
                        if (random > UINT64_MAX / 3)
                                break;
                }
}

static void test_retry_after(void) {
        /* 2026-11-21 05:00:00 UTC */
        usec_t now = 1795237200 * USEC_PER_SEC, wait = 77;

        ASSERT_OK(backoff_parse_retry_after("0", now, &wait));
        ASSERT_EQ(wait, 0);
        ASSERT_OK(backoff_parse_retry_after("120", now, &wait));
        ASSERT_EQ(wait, 120 * USEC_PER_SEC);
        ASSERT_OK(backoff_parse_retry_after("86400", now, &wait));
        ASSERT_EQ(wait, BACKOFF_RETRY_AFTER_MAX);
        ASSERT_OK(backoff_parse_retry_after("99999999999999999999999999", now, &wait));
        ASSERT_EQ(wait, BACKOFF_RETRY_AFTER_MAX);
        ASSERT_OK(backoff_parse_retry_after("Sat, 21 Nov 2026 05:00:30 GMT", now, &wait));
        ASSERT_EQ(wait, 30 * USEC_PER_SEC);
        ASSERT_OK(backoff_parse_retry_after("Saturday, 21-Nov-26 05:01:00 GMT", now, &wait));
        ASSERT_EQ(wait, 60 * USEC_PER_SEC);
        ASSERT_OK(backoff_parse_retry_after("Sat Nov 21 05:00:10 2026", now, &wait));
        ASSERT_EQ(wait, 10 * USEC_PER_SEC);
        ASSERT_OK(backoff_parse_retry_after("Sat, 21 Nov 2026 04:00:00 GMT", now, &wait));
        ASSERT_EQ(wait, 0);
        ASSERT_OK(backoff_parse_retry_after("Mon, 21 Nov 2095 05:00:30 GMT", now, &wait));
        ASSERT_EQ(wait, BACKOFF_RETRY_AFTER_MAX);
        wait = 77;
        ASSERT_EQ(backoff_parse_retry_after("", now, &wait), -EBADMSG);
        ASSERT_EQ(backoff_parse_retry_after("-5", now, &wait), -EBADMSG);
        ASSERT_EQ(backoff_parse_retry_after("12.5", now, &wait), -EBADMSG);
        ASSERT_EQ(backoff_parse_retry_after("soon", now, &wait), -EBADMSG);
        ASSERT_EQ(backoff_parse_retry_after("5 seconds", now, &wait), -EBADMSG);
        ASSERT_EQ(wait, 77);
}

TEST_MAIN(test_full_jitter, test_retry_after)
