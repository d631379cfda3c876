/* SPDX-License-Identifier: Apache-2.0 */
/* Check= of [Health]: which constants a check has. */
#include "policies.h"
#include "test.h"

static const struct health_policy all = { .fail_after = 2, .heal_after = 2, .hold = 10 * USEC_PER_SEC };

static void overrides(void) {
        struct check_policies p = { 0 };
        struct health_policy q;
        char why[96] = "";

        ASSERT_OK(policies_parse("nic FailAfter=5 Hold=1min", &p, why));
        ASSERT_OK(policies_parse("nic.mtu  HealAfter=7 FlapAfter=0", &p, why));
        ASSERT_OK(policies_parse("nic.mtu HealAfter=9", &p, why)); /* the last word of the same */
        q = policies_for(&p, &all, "nic.mtu");
        ASSERT_EQ(q.fail_after, 5);
        ASSERT_EQ(q.heal_after, 9);
        ASSERT_EQ(q.hold, 60 * USEC_PER_SEC);
        q = policies_for(&p, &all, "nic.link");
        ASSERT_EQ(q.fail_after, 5);
        ASSERT_EQ(q.heal_after, 2);
        q = policies_for(&p, &all, "nicer.mtu"); /* a group is a whole word */
        ASSERT_EQ(q.fail_after, 2);
        ASSERT_EQ(policies_for(&p, &all, "nic").fail_after, 5);
        ASSERT_OK(policies_parse("", &p, why));
        ASSERT_EQ(policies_for(&p, &all, "nic.mtu").fail_after, 2);
}

static void refused(void) {
        static const char *const bad[] = { "nic",
                                           "NIC FailAfter=2",
                                           "nic FailAfter=0",
                                           "nic FailAfter",
                                           "nic Hold=2d",
                                           "nic FlapAfter=17",
                                           "nic Fail=2",
                                           "=2",
                                           "FailAfter=2",
                                           "nic FailAfter=2 x",
                                           "nic HealAfter=-1",
                                           "nic.mtu.very.long.name.of.a.check.x FailAfter=1" };
        struct check_policies p = { 0 };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                char why[96] = "";

                if (policies_parse(bad[i], &p, why) >= 0 || !why[0])
                        test_fail(__FILE__, __LINE__, "'%s' was taken, or without a reason", bad[i]);
                ASSERT_EQ(p.n, 0);
        }
        for (int i = 0; i < POLICIES_MAX + 1; i++) {
                char value[32], why[96] = "";

                (void) snprintf(value, sizeof(value), "c%d Hold=1s", i);
                ASSERT_EQ(policies_parse(value, &p, why), i < POLICIES_MAX ? 0 : -E2BIG);
        }
}

TEST_MAIN(overrides, refused)
