/* SPDX-License-Identifier: Apache-2.0 */
#include "backoff.h"
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

TEST_MAIN(test_full_jitter)
