/* SPDX-License-Identifier: Apache-2.0 */
/* When connections end that came together. */
#include "http_connection.h"
#include "test.h"

#define HOSTS 12800u
#define LIFE (3600 * USEC_PER_SEC)
#define BINS 90u /* of 10 s, in the last quarter of an hour */

/* 12,800 that came at once, each with memory of its own, one behind the other: they do not come again at
 * once. */
static void spread(usec_t apart) {
        static char memory[HOSTS * 320];
        unsigned bins[BINS] = { 0 }, most = 0;
        const usec_t began = 7 * LIFE;

        for (unsigned i = 0; i < HOSTS; i++) {
                usec_t now = began + i * apart, left,
                       end = http_connection_ends(now, LIFE, memory + 320 * (size_t) i);

                ASSERT_TRUE(end > now + LIFE - LIFE / 4 && end <= now + LIFE);
                left = end - now - (LIFE - LIFE / 4);
                bins[MIN(left / (10 * USEC_PER_SEC), (usec_t) BINS - 1)]++;
        }
        for (unsigned i = 0; i < BINS; i++)
                most = MAX(most, bins[i]);
        ASSERT_TRUE(most < 2 * HOSTS / BINS);
}

static void test_at_once(void) {
        spread(0);
}

static void test_within_half_a_minute(void) {
        spread(30 * USEC_PER_SEC / HOSTS);
}

TEST_MAIN(test_at_once, test_within_half_a_minute)
