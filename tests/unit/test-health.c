/* SPDX-License-Identifier: Apache-2.0 */
/* The health rules by example, and against a plain model of them on random verdicts. */
#include "health.h"
#include "test.h"

static void by_example(void) {
        const struct health_policy p = { .fail_after = 2, .heal_after = 3, .hold = 10 };
        struct check_health c = { 0 };

        ASSERT_TRUE(check_health_step(&p, &c, VERDICT_OK, 0));
        ASSERT_FALSE(check_health_step(&p, &c, VERDICT_FAIL, 1));
        ASSERT_FALSE(check_health_step(&p, &c, VERDICT_OK, 2)); /* one bad verdict is none */
        ASSERT_FALSE(check_health_step(&p, &c, VERDICT_WARN, 3));
        ASSERT_TRUE(check_health_step(&p, &c, VERDICT_FAIL, 4));
        ASSERT_EQ(c.settled, VERDICT_WARN); /* what both support */
        ASSERT_FALSE(check_health_step(&p, &c, VERDICT_FAIL, 5));
        ASSERT_TRUE(check_health_step(&p, &c, VERDICT_FAIL, 6));
        ASSERT_EQ(c.settled, VERDICT_FAIL);
        for (usec_t t = 7; t < 16; t++) /* three OKs are there at 9, but hold lasts until 16 */
                ASSERT_FALSE(check_health_step(&p, &c, VERDICT_OK, t));
        ASSERT_TRUE(check_health_step(&p, &c, VERDICT_OK, 16));
        ASSERT_EQ(c.settled, VERDICT_OK);
        ASSERT_EQ(c.since, 16);
}

static void unknown_heals_nothing(void) {
        const struct health_policy p = { .fail_after = 1, .heal_after = 2, .hold = 0 };
        struct check_health c = { 0 };

        ASSERT_TRUE(check_health_step(&p, &c, VERDICT_FAIL, 0));
        for (usec_t t = 1; t < 50; t++)
                ASSERT_FALSE(check_health_step(&p, &c, VERDICT_UNKNOWN, t));
        ASSERT_FALSE(check_health_step(&p, &c, VERDICT_OK, 50));
        ASSERT_FALSE(check_health_step(&p, &c, VERDICT_UNKNOWN, 51));
        ASSERT_FALSE(check_health_step(&p, &c, VERDICT_OK, 52));
        ASSERT_TRUE(check_health_step(&p, &c, VERDICT_OK, 53));
        /* But from OK it is news. */
        ASSERT_TRUE(check_health_step(&p, &c, VERDICT_UNKNOWN, 54));
        ASSERT_EQ(c.settled, VERDICT_UNKNOWN);
}

static void flapping_stays_failed(void) {
        const struct health_policy p = { .fail_after = 1, .heal_after = 3, .hold = 0 };
        struct check_health c = { 0 };
        unsigned changes = 0;

        for (usec_t t = 0; t < 1000; t++)
                changes += check_health_step(&p, &c, t % 2 == 0 ? VERDICT_FAIL : VERDICT_OK, t);
        ASSERT_EQ(changes, 1);
        ASSERT_EQ(c.settled, VERDICT_FAIL);
}

static int gravity(enum verdict v) {
        switch (v) {
        case VERDICT_OK:
                return 0;
        case VERDICT_UNKNOWN:
                return 1;
        case VERDICT_WARN:
                return 2;
        case VERDICT_FAIL:
                return 3;
        case _VERDICT_MAX:
                break;
        }
        abort();
}

/* Looks back over the whole history instead of keeping state: what must be true when settled changes, and
 * when it may not stay. */
static bool row(const enum verdict *h, size_t now, size_t from, int settled, unsigned need, bool worse,
                int *ret_edge) {
        unsigned n = 0;
        int edge = worse ? 3 : 0;

        for (size_t i = now + 1; i-- > from;) {
                int g = gravity(h[i]);

                if (worse ? g <= settled : (g >= settled || h[i] == VERDICT_UNKNOWN))
                        break;
                edge = worse ? MIN(edge, g) : MAX(edge, g);
                n++;
        }
        *ret_edge = edge;
        return n >= need;
}

static void against_model(unsigned seed) {
        enum { STEPS = 400 };
        struct health_policy p;
        struct check_health c = { 0 };
        enum verdict history[STEPS];
        size_t changed = 0;
        usec_t now = 100, since = 0;
        int settled = 0;

        srandom(seed);
        p = (struct health_policy) { 1 + (unsigned) random() % 4, 1 + (unsigned) random() % 4,
                                    (usec_t) (random() % 30) };
        for (size_t i = 0; i < STEPS; i++) {
                int worse_edge, better_edge;
                bool must, did;

                now += (usec_t) (random() % 5);
                history[i] =
                        i > 0 && random() % 3 ? history[i - 1] : (enum verdict)(random() % _VERDICT_MAX);
                did = check_health_step(&p, &c, history[i], now);
                if (i == 0) {
                        ASSERT_TRUE(did);
                        settled = gravity(history[0]);
                        since = now;
                        continue;
                }
                if (row(history, i, changed + 1, settled, p.fail_after, true, &worse_edge)) {
                        must = true;
                        settled = worse_edge;
                } else {
                        must = row(history, i, changed + 1, settled, p.heal_after, false, &better_edge) &&
                               now - since >= p.hold;
                        settled = must ? better_edge : settled;
                }
                if (must != did || gravity(c.settled) != settled)
                        test_fail(__FILE__, __LINE__,
                                  "seed %u step %zu: changed %d, should be %d; settled %s", seed, i, did,
                                  must, verdict_name(c.settled));
                if (did) {
                        changed = i;
                        since = now;
                        ASSERT_EQ(c.since, now);
                }
        }
}

static void random_verdicts(void) {
        unsigned seed = test_seed();

        for (unsigned i = 0; i < 2000; i++)
                against_model(seed + i);
}

static void worst_state(void) {
        struct check_health c[4] = { 0 };

        ASSERT_EQ(host_state_of(NULL, 0), HOST_UNKNOWN);
        ASSERT_EQ(host_state_of(c, 1), HOST_UNKNOWN);
        for (size_t i = 0; i < 4; i++)
                c[i] = (struct check_health) { .seen = VERDICT_FAIL, .started = true }; /* settled: OK */
        ASSERT_EQ(host_state_of(c, 4), HOST_READY);
        c[1].settled = VERDICT_UNKNOWN;
        ASSERT_EQ(host_state_of(c, 4), HOST_UNKNOWN);
        c[2].settled = VERDICT_WARN;
        ASSERT_EQ(host_state_of(c, 4), HOST_DEGRADED);
        c[0].settled = VERDICT_FAIL;
        ASSERT_EQ(host_state_of(c, 4), HOST_UNFIT);
        ASSERT_STREQ(host_state_name(HOST_READY), "ready");
        ASSERT_STREQ(host_state_name(HOST_DEGRADED), "degraded");
        ASSERT_STREQ(host_state_name(HOST_UNFIT), "unfit");
        ASSERT_STREQ(host_state_name(HOST_UNKNOWN), "unknown");
}

TEST_MAIN(by_example, unknown_heals_nothing, flapping_stays_failed, random_verdicts, worst_state)
