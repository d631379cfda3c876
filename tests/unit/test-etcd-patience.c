/* SPDX-License-Identifier: Apache-2.0 */
#include "backoff.h"
#include "etcd_patience.h"
#include "test.h"

#define SECOND USEC_PER_SEC
#define DRAWS 1000

static uint64_t draw(unsigned i) { /* splitmix64: the same ones each time */
        uint64_t z = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
}

static void test_a_deadline(void) {
        static const struct {
                struct etcd_patience p;
                usec_t deadline;
        } cases[] = {
                /* who comes: longer after each failure, and from the first on where there is nobody else to ask */
                { { .least = 3 * SECOND }, 3 * SECOND },
                { { .least = 3 * SECOND, .failures = 1 }, 6 * SECOND },
                { { .least = 3 * SECOND, .failures = 9 }, 12 * SECOND },
                { { .least = 3 * SECOND, .alone = true }, 12 * SECOND },
                { { .least = 3 * SECOND, .slowest = 2 * SECOND }, 8 * SECOND },
                { { .least = 3 * SECOND, .slowest = 60 * SECOND }, PATIENCE_MOST },
                /* a member: as the answers of late, and its lease, say */
                { { .least = 3 * SECOND, .joined = true, .left = 13 * SECOND }, 3 * SECOND },
                { { .least = 3 * SECOND, .joined = true, .left = 13 * SECOND, .slowest = SECOND }, 4 * SECOND },
                { { .least = 3 * SECOND, .joined = true, .left = 13 * SECOND, .slowest = 9 * SECOND }, 6500000 },
                { { .least = 3 * SECOND, .joined = true, .left = 1 * SECOND, .slowest = 9 * SECOND }, 3 * SECOND },
                { { .least = 1 * SECOND, .joined = true, .failures = 5, .alone = true }, 1 * SECOND },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                ASSERT_EQ(etcd_patience_deadline(&cases[i].p), cases[i].deadline);
}

/* Who waited in vain stays away for about as long: what all ask in vain becomes less. */
static void test_a_wait(void) {
        const struct etcd_patience comes = { .least = 3 * SECOND }, tired = { .least = 3 * SECOND, .failures = 10 };

        for (unsigned i = 0; i < DRAWS; i++) {
                usec_t wait = etcd_patience_wait(&comes, 8 * SECOND, draw(i));

                ASSERT_TRUE(wait >= 4 * SECOND && wait < 12 * SECOND);
                ASSERT_TRUE(etcd_patience_wait(&comes, 1000, draw(i)) <= BACKOFF_BASE); /* refused at once */
                ASSERT_TRUE(etcd_patience_wait(&tired, 200 * SECOND, draw(i)) <= PATIENCE_MOST);
        }
}

/* A member tries again while its lease lasts, but never without a pause. */
static void test_a_members_wait(void) {
        const struct etcd_patience early = { .joined = true, .left = 8 * SECOND, .failures = 10 },
                                   late = { .joined = true, .left = 1, .failures = 10 },
                                   over = { .joined = true, .left = 0, .failures = 10 };
        usec_t longest = 0;

        for (unsigned i = 0; i < DRAWS; i++) {
                usec_t wait = etcd_patience_wait(&early, 3 * SECOND, draw(i));

                ASSERT_TRUE(wait <= 2 * SECOND);
                ASSERT_TRUE(etcd_patience_wait(&late, 3 * SECOND, draw(i)) <= BACKOFF_BASE);
                longest = MAX(longest, etcd_patience_wait(&over, 3 * SECOND, draw(i)));
        }
        ASSERT_TRUE(longest > BACKOFF_MAX / 2 && longest <= BACKOFF_MAX); /* nothing is left to be saved */
}

static void test_slowness_is_forgotten(void) {
        usec_t slowest = etcd_patience_slowest(0, 4 * SECOND);

        ASSERT_EQ(slowest, 4 * SECOND);
        slowest = etcd_patience_slowest(slowest, 1000);
        ASSERT_EQ(slowest, 3 * SECOND);
        for (unsigned i = 0; i < 40; i++)
                slowest = etcd_patience_slowest(slowest, 1000);
        ASSERT_TRUE(slowest < 2000);
}

int main(void) {
        test_a_deadline();
        test_a_wait();
        test_a_members_wait();
        test_slowness_is_forgotten();
        return EXIT_SUCCESS;
}
