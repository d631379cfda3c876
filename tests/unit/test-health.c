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

/* Seen bad again and again, each time long enough to heal: from the fourth time on it must stay good first.
 */
static void damped(void) {
        const struct health_policy p = {
                .fail_after = 1, .heal_after = 1, .flap_after = 4, .flap_window = 100, .flap_quiet = 50
        };
        struct check_health c = { 0 };
        usec_t t = 1;

        ASSERT_TRUE(check_health_step(&p, &c, VERDICT_OK, t));
        for (unsigned i = 0; i < 4; i++) {
                ASSERT_FALSE(c.flapping);
                ASSERT_TRUE(check_health_step(&p, &c, VERDICT_FAIL, ++t));
                ASSERT_EQ(check_health_step(&p, &c, VERDICT_OK, ++t), i < 3);
        }
        ASSERT_TRUE(c.flapping);
        ASSERT_EQ(c.worsened, 4);
        ASSERT_EQ(c.last_good, t);
        ASSERT_FALSE(check_health_step(&p, &c, VERDICT_OK, t + 49));
        ASSERT_FALSE(check_health_step(&p, &c, VERDICT_FAIL, t + 50)); /* not quiet: from the beginning */
        ASSERT_FALSE(check_health_step(&p, &c, VERDICT_OK, t + 51));
        ASSERT_FALSE(check_health_step(&p, &c, VERDICT_OK, t + 100));
        ASSERT_TRUE(check_health_step(&p, &c, VERDICT_OK, t + 101));
        ASSERT_FALSE(c.flapping);
        /* As often, but slowly: no flapping. */
        for (unsigned i = 0; i < 20; i++) {
                ASSERT_TRUE(check_health_step(&p, &c, VERDICT_FAIL, t += 101));
                ASSERT_TRUE(check_health_step(&p, &c, VERDICT_OK, ++t));
        }
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
        p = (struct health_policy){ .fail_after = 1 + (unsigned) random() % 4,
                                    .heal_after = 1 + (unsigned) random() % 4,
                                    .hold = (usec_t) (random() % 30) };
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

#define CHANGES 4000

/* What holds of every sequence: no change for the better within hold of any change, never more than
 * flap_after changes for the worse within flap_window without a quiet time between, the same answers when
 * told again. */
static void properties(unsigned seed) {
        static usec_t worse_at[CHANGES];
        struct health_policy p;
        struct check_health c = { 0 }, again = { 0 };
        usec_t now = 1, changed = 0, last_good = 0;
        size_t n_worse = 0;

        srandom(seed);
        p = (struct health_policy){ .fail_after = 1 + (unsigned) random() % 3,
                                    .heal_after = 1 + (unsigned) random() % 3,
                                    .hold = (usec_t) (random() % 20),
                                    .flap_after = 1 + (unsigned) random() % HEALTH_FLAPS_MAX,
                                    .flap_window = (usec_t) (random() % 200),
                                    .flap_quiet = (usec_t) (random() % 100) };
        for (size_t i = 0; i < CHANGES; i++) {
                enum verdict v = random() % 4 ? c.seen : (enum verdict)(random() % _VERDICT_MAX),
                             before = c.settled;
                bool started = c.started, flapping = c.flapping, did;
                usec_t since = c.since;

                now += (usec_t) (random() % 6);
                did = check_health_step(&p, &c, v, now);
                ASSERT_EQ(did, check_health_step(&p, &again, v, now));
                ASSERT_TRUE(memcmp(&c, &again, sizeof(c)) == 0);
                ASSERT_EQ(did, c.since == now && (!started || c.settled != before));
                last_good = v == VERDICT_OK ? now : last_good;
                ASSERT_EQ(c.last_good, last_good);
                ASSERT_TRUE(c.since >= since && c.since <= now);
                if (!did)
                        continue;
                if (started && gravity(c.settled) < gravity(before)) {
                        ASSERT_TRUE(now - changed >= p.hold);
                        if (flapping)
                                ASSERT_FALSE(c.flapping);
                } else if (started || v != VERDICT_OK) {
                        worse_at[n_worse++] = now;
                        ASSERT_EQ(c.worsened, n_worse);
                        if (n_worse >= p.flap_after &&
                            now - worse_at[n_worse - p.flap_after] <= p.flap_window)
                                ASSERT_TRUE(c.flapping);
                }
                changed = now;
        }
}

/* A flapping check heals only after a quiet row: looked back for in the whole history. */
static void flapping_heals_when_quiet(unsigned seed) {
        static enum verdict seen[CHANGES];
        static usec_t at[CHANGES];
        const struct health_policy p = {
                .fail_after = 1, .heal_after = 1, .flap_after = 3, .flap_window = 60, .flap_quiet = 25
        };
        struct check_health c = { 0 };
        usec_t now = 1;
        size_t healed = 0;

        srandom(seed);
        for (size_t i = 0; i < CHANGES; i++) {
                bool flapping = c.flapping;
                enum verdict before = c.settled;

                at[i] = now += (usec_t) (random() % 6);
                seen[i] = random() % 5 && i > 0 ? seen[i - 1] : (enum verdict)(random() % _VERDICT_MAX);
                if (!check_health_step(&p, &c, seen[i], now) || !flapping ||
                    gravity(c.settled) >= gravity(before))
                        continue;
                healed++;
                for (size_t k = i; now - at[k] < p.flap_quiet; k--)
                        ASSERT_TRUE(seen[k] != VERDICT_UNKNOWN && gravity(seen[k]) < gravity(before));
        }
        ASSERT_TRUE(healed > 5); /* it did come to it */
}

static void random_properties(void) {
        unsigned seed = test_seed();

        for (unsigned i = 0; i < 300; i++)
                properties(seed + i);
        for (unsigned i = 0; i < 50; i++)
                flapping_heals_when_quiet(seed + i);
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
        c[0].silenced = true;
        ASSERT_EQ(host_state_of(c, 4), HOST_DEGRADED);
        c[0].silenced = false;
        ASSERT_STREQ(host_state_name(HOST_READY), "ready");
        ASSERT_STREQ(host_state_name(HOST_DEGRADED), "degraded");
        ASSERT_STREQ(host_state_name(HOST_UNFIT), "unfit");
        ASSERT_STREQ(host_state_name(HOST_UNKNOWN), "unknown");
}

TEST_MAIN(by_example, unknown_heals_nothing, flapping_stays_failed, damped, random_verdicts,
          random_properties, worst_state)
