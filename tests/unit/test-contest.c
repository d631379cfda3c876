/* SPDX-License-Identifier: Apache-2.0 */
#include "contest.h"
#include "plan.h"
#include "test.h"

static struct plan_op mtu_op(const char *nic, const char *from) {
        struct plan_op op = { .kind = OP_MTU };

        finding_set(op.subject, "%s", nic);
        finding_set(op.from, "%s", from);
        return op;
}

#define SECONDS(n) ((usec_t) (n) *USEC_PER_SEC)

static void repair(struct contest *c, const struct plan_op *op, usec_t now) {
        ASSERT_TRUE(contest_allows(c, op, now));
        ASSERT_OK(contest_note_repair(c, op, now));
}

static void test_contest(void) {
        struct contest c = CONTEST_NULL;
        struct plan_op eth0 = mtu_op("eth0", "1400"), eth1 = mtu_op("eth1", "1400"),
                  other = mtu_op("eth0", "1500");

        repair(&c, &eth0, SECONDS(100));
        repair(&c, &eth0, SECONDS(130));
        ASSERT_FALSE(contest_allows(&c, &eth0, SECONDS(159)));
        ASSERT_FALSE(contest_allows(&c, &eth0, SECONDS(300)));   /* still contested */
        repair(&c, &eth1, SECONDS(300));                         /* others are not */
        ASSERT_FALSE(contest_allows(&c, &other, SECONDS(2000))); /* changed again: the hour begins anew */
        ASSERT_FALSE(contest_allows(&c, &other, SECONDS(5599)));
        repair(&c, &other, SECONDS(5600));
        repair(&c, &other, SECONDS(5601));
        ASSERT_FALSE(contest_allows(&c, &other, SECONDS(5602)));
        contest_clear(&c);
}

static void test_a_nic_made_anew_is_another(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op = mtu_op("eth0", "1460");

        for (op.index = 2; op.index < 20; op.index++)
                repair(&c, &op, SECONDS(100 + op.index));
        op.index = 19;
        repair(&c, &op, SECONDS(121));
        ASSERT_FALSE(contest_allows(&c, &op, SECONDS(122)));
}

static void test_a_route_whose_link_came_back_is_new(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct plan_op op = { .kind = OP_ROUTE, .subject = "10.0.0.0/24 dev eth0", .index = 2 };

        for (; op.carrier_changes < 20; op.carrier_changes += 2)
                repair(&c, &op, SECONDS(100 + op.carrier_changes));
        repair(&c, &op, SECONDS(121));
        repair(&c, &op, SECONDS(122));
        ASSERT_FALSE(contest_allows(&c, &op, SECONDS(123)));
        op.carrier_changes += 2;
        ASSERT_TRUE(contest_allows(&c, &op, SECONDS(124)));
}

static void test_held(void) {
        struct contest c = CONTEST_NULL;
        struct plan_op op = mtu_op("eth0", "1460");

        ASSERT_OK(contest_hold(&c, &op, -EHOSTUNREACH, SECONDS(100)));
        ASSERT_FALSE(contest_allows(&c, &op, SECONDS(3699)));
        ASSERT_EQ(contest_why(&c, &op), -EHOSTUNREACH);
        ASSERT_TRUE(contest_allows(&c, &op, SECONDS(3700)));
        ASSERT_EQ(contest_why(&c, &op), 0);
        contest_clear(&c);
}

static void test_slow_drift_is_no_contest(void) {
        struct contest c = CONTEST_NULL;
        struct plan_op op = mtu_op("eth0", "1400");

        for (unsigned n = 1; n < 100; n++)
                repair(&c, &op, SECONDS(31 * n)); /* two within 60 s, and the third after them */
        contest_clear(&c);
}

static void test_a_route_that_went_by_itself_is_new(void) {
        _cleanup_(contest_clear) struct contest c = CONTEST_NULL;
        struct found none = FOUND_NULL;
        struct plan_op op = { .kind = OP_ROUTE, .subject = "10.0.0.0/24 dev eth0", .from = "none" };
        struct plan_op nic = mtu_op("eth0", "1460");

        repair(&c, &op, SECONDS(100));
        repair(&c, &nic, SECONDS(100));
        repair(&c, &op, SECONDS(101));
        contest_forget_routes(&c, &none, SECONDS(102));
        repair(&c, &op, SECONDS(110));
        repair(&c, &op, SECONDS(111));
        contest_forget_routes(&c, &none, SECONDS(112) - 1); /* at once: because of our repair */
        ASSERT_FALSE(contest_allows(&c, &op, SECONDS(113)));
        contest_forget_routes(&c, &none, SECONDS(300));
        ASSERT_FALSE(contest_allows(&c, &op, SECONDS(301))); /* what is contested stays so */
        repair(&c, &nic, SECONDS(130));
        ASSERT_FALSE(contest_allows(&c, &nic, SECONDS(131))); /* and of others nothing is forgotten */
}

static void test_contest_is_bounded(void) {
        struct contest c = CONTEST_NULL;
        struct plan_op op;
        char name[16];

        for (unsigned n = 1; n <= 3 * CONTEST_MAX; n++) {
                (void) snprintf(name, sizeof(name), "nic%u", n);
                op = mtu_op(name, "1400");
                repair(&c, &op, SECONDS(n));
        }
        ASSERT_EQ(c.n, CONTEST_MAX);
        repair(&c, &op, SECONDS(3 * CONTEST_MAX + 1)); /* the latest is still known … */
        ASSERT_FALSE(contest_allows(&c, &op, SECONDS(3 * CONTEST_MAX + 2)));
        contest_clear(&c);
}

TEST_MAIN(test_held, test_contest, test_a_nic_made_anew_is_another, test_a_route_whose_link_came_back_is_new,
          test_slow_drift_is_no_contest, test_a_route_that_went_by_itself_is_new, test_contest_is_bounded)
