/* SPDX-License-Identifier: Apache-2.0 */
/* Checks over time: only transitions are told, what vanishes is forgotten, the table is bounded. */
#include "checks.h"
#include "schedule.h"
#include "test.h"

static const struct health_policy policy = { .fail_after = 2, .heal_after = 2, .hold = 0 };

static struct finding finding(const char *subject, enum verdict v, const char *found) {
        struct finding f;

        finding_init(&f, "nic.mtu", subject);
        f.verdict = v;
        finding_set(f.found, "%s", found);
        return f;
}

static void test_transitions(void) {
        struct check_table t;
        struct check_change c;
        struct finding good = finding("eth0", VERDICT_OK, "8896"),
                       bad = finding("eth0", VERDICT_FAIL, "1460");
        char text[64];

        ASSERT_OK(check_table_init(&t));
        ASSERT_EQ(check_table_state(&t), HOST_UNKNOWN);
        ASSERT_EQ(check_table_take(&t, &policy, 0, 1, &good, 10, &c), 0); /* OK at first sight is no news */
        ASSERT_EQ(check_table_state(&t), HOST_READY);
        ASSERT_FALSE(check_table_worsens(&t, 0));
        ASSERT_EQ(check_table_take(&t, &policy, 0, 2, &bad, 20, &c), 0);
        ASSERT_EQ(check_table_state(&t), HOST_READY); /* once is not enough */
        ASSERT_TRUE(check_table_worsens(&t, 0));
        ASSERT_FALSE(check_table_worsens(&t, 1)); /* it is not what that source says */
        ASSERT_STREQ(t.entries[0].latest->found, "1460");
        ASSERT_STREQ(t.entries[0].settled->found, "8896");
        ASSERT_EQ(check_table_take(&t, &policy, 0, 3, &bad, 30, &c), 1);
        ASSERT_FALSE(check_table_worsens(&t, 0));
        ASSERT_EQ(c.from, VERDICT_OK);
        ASSERT_EQ(c.to, VERDICT_FAIL);
        ASSERT_STREQ(c.finding.found, "1460");
        ASSERT_EQ(check_table_state(&t), HOST_UNFIT);
        ASSERT_STREQ(check_table_reasons(&t, text, sizeof(text)), "nic.mtu eth0 FAIL");
        ASSERT_EQ(check_table_take(&t, &policy, 0, 4, &bad, 40, &c), 0); /* still: no news */
        ASSERT_EQ(check_table_take(&t, &policy, 0, 5, &good, 50, &c), 0);
        ASSERT_FALSE(check_table_worsens(&t, 0)); /* it gets better, and that takes its time */
        ASSERT_STREQ(t.entries[0].settled->found,
                     "1460"); /* while it heals, the reason is still why it counts */
        ASSERT_EQ(check_table_take(&t, &policy, 0, 6, &good, 60, &c), 1);
        ASSERT_EQ(c.to, VERDICT_OK);
        check_table_clear(&t);
}

static void test_first_sight(void) {
        struct check_table t;
        struct check_change c;
        struct finding bad = finding("eth0", VERDICT_WARN, "x");

        ASSERT_OK(check_table_init(&t));
        ASSERT_EQ(check_table_take(&t, &policy, 0, 1, &bad, 10, &c), 1);
        ASSERT_EQ(c.from, _VERDICT_MAX);
        ASSERT_EQ(c.to, VERDICT_WARN);
        ASSERT_EQ(check_table_state(&t), HOST_DEGRADED);
        check_table_clear(&t);
}

static unsigned n_gone;
static void on_gone(const struct check_change *c, void *userdata) {
        ASSERT_STREQ(c->finding.subject, userdata);
        ASSERT_EQ(c->to, _VERDICT_MAX);
        n_gone++;
}

static void test_gone(void) {
        struct check_table t;
        struct check_change c;
        struct finding a = finding("eth0", VERDICT_FAIL, "x"), b = finding("eth1", VERDICT_OK, "y"),
                       other = finding("z", VERDICT_OK, "z");
        char subject[] = "eth0";

        ASSERT_OK(check_table_init(&t));
        (void) check_table_take(&t, &policy, 0, 1, &a, 10, &c);
        (void) check_table_take(&t, &policy, 0, 1, &b, 10, &c);
        (void) check_table_take(&t, &policy, 7, 1, &other, 10, &c);
        check_table_end_run(&t, 0, 1, on_gone, subject);
        ASSERT_EQ(n_gone, 0);
        (void) check_table_take(&t, &policy, 0, 2, &b, 20, &c);
        check_table_end_run(&t, 0, 2, on_gone, subject);
        ASSERT_EQ(n_gone, 1);
        ASSERT_EQ(t.n, 2);
        ASSERT_EQ(check_table_state(&t), HOST_READY);
        check_table_clear(&t);
}

static void test_bound(void) {
        struct check_table t;
        struct check_change c;
        char text[32];

        ASSERT_OK(check_table_init(&t));
        for (int i = 0; i < CHECKS_MAX + 5; i++) {
                char subject[16];
                struct finding f;

                (void) snprintf(subject, sizeof(subject), "s%d", i);
                f = finding(subject, VERDICT_FAIL, "x");
                ASSERT_EQ(check_table_take(&t, &policy, 0, 1, &f, 10, &c), i < CHECKS_MAX ? 1 : -ENOSPC);
        }
        ASSERT_EQ(t.refused, 5);
        (void) check_table_reasons(&t, text, sizeof(text)); /* cut, and ended */
        ASSERT_TRUE(strlen(text) < sizeof(text));
        ASSERT_STREQ(text + strlen(text) - 3, "…");
        check_table_clear(&t);
}

/* What is cut off is never the worst. */
static void test_gravest_reason_first(void) {
        const struct finding f[] = { finding("a", VERDICT_UNKNOWN, "x"), finding("b", VERDICT_WARN, "x"),
                                     finding("c", VERDICT_FAIL, "x"), finding("d", VERDICT_OK, "x") };
        struct check_table t;
        struct check_change c;
        char text[128], little[20];

        ASSERT_OK(check_table_init(&t));
        for (size_t i = 0; i < ELEMENTSOF(f); i++)
                ASSERT_TRUE(check_table_take(&t, &policy, 0, 1, &f[i], 10, &c) >= 0);
        ASSERT_STREQ(check_table_reasons(&t, text, sizeof(text)),
                     "nic.mtu c FAIL, nic.mtu b WARN, nic.mtu a UNKNOWN");
        ASSERT_TRUE(startswith(check_table_reasons(&t, little, sizeof(little)), "nic.mtu c FAIL"));
        check_table_clear(&t);
}

static void test_jitter(void) {
        usec_t least = UINT64_MAX, most = 0;

        for (uint32_t i = 0; i < 100000; i++) {
                usec_t j = schedule_jitter(10 * USEC_PER_SEC, i * 2654435761u);

                least = MIN(least, j);
                most = MAX(most, j);
        }
        ASSERT_TRUE(least >= 9 * USEC_PER_SEC && most <= 11 * USEC_PER_SEC);
        ASSERT_TRUE(most - least > USEC_PER_SEC); /* it does spread */
        ASSERT_EQ(schedule_jitter(0, 5), 0);
}

/* What is seen again is not kept again, what settled a check is kept once, and a full finding comes back
 * whole. */
static void test_kept(void) {
        struct finding full = finding("eth0", VERDICT_FAIL, "x"), back;
        struct check_table t;
        struct check_change c;

        memset(full.found, 'f', sizeof(full.found) - 1);
        memset(full.reason, 'r', sizeof(full.reason) - 1);
        memset(full.remedy, 'm', sizeof(full.remedy) - 1);
        full.found[sizeof(full.found) - 1] = full.reason[sizeof(full.reason) - 1] = 0;
        full.remedy[sizeof(full.remedy) - 1] = 0;
        ASSERT_OK(check_table_init(&t));
        ASSERT_EQ(check_table_take(&t, &policy, 0, 1, &full, 10, &c), 1);
        ASSERT_TRUE(t.entries[0].latest == t.entries[0].settled);
        const struct kept_finding *first = t.entries[0].latest;
        ASSERT_EQ(check_table_take(&t, &policy, 0, 2, &full, 20, &c), 0);
        ASSERT_TRUE(t.entries[0].latest == first);
        kept_finding_unpack(first, &back);
        ASSERT_STREQ(back.found, full.found);
        ASSERT_STREQ(back.reason, full.reason);
        ASSERT_STREQ(back.remedy, full.remedy);
        ASSERT_STREQ(back.check, full.check);
        ASSERT_EQ(back.verdict, VERDICT_FAIL);
        full.verdict = VERDICT_OK;
        ASSERT_EQ(check_table_take(&t, &policy, 0, 3, &full, 30, &c), 0);
        ASSERT_TRUE(t.entries[0].latest != t.entries[0].settled);
        check_table_end_run(&t, 0, 4, NULL, NULL);
        ASSERT_EQ(t.n, 0);
        check_table_clear(&t);
}

TEST_MAIN(test_kept, test_gravest_reason_first, test_transitions, test_first_sight, test_gone, test_bound,
          test_jitter)
