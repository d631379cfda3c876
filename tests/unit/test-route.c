/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoint.h"
#include "test.h"

#define S USEC_PER_SEC

static int pick(const struct uplink_route *r, size_t n, usec_t now) {
        usec_t at = 0;
        int i = route_pick(r, n, now, &at);

        ASSERT_TRUE(i >= 0 || at > now);
        return i;
}

static void test_one_endpoint_waits_and_is_tried_again(void) {
        struct uplink_route r[1] = { 0 };
        usec_t at = 0;

        ASSERT_EQ(pick(r, 1, 100 * S), 0);
        for (unsigned i = 0; i < 20; i++)
                route_failed(&r[0], 100 * S, 5 * S, "no");
        ASSERT_EQ(route_pick(r, 1, 100 * S, &at), -1);
        ASSERT_EQ(at, 105 * S); /* however often it failed: nobody else would take it */
        ASSERT_EQ(pick(r, 1, 105 * S), 0);
        route_worked(&r[0]);
        ASSERT_EQ(pick(r, 1, 100 * S), 0);
        ASSERT_STREQ(r[0].why, "");
}

static void test_one_failure_is_waited_out(void) {
        struct uplink_route r[2] = { 0 };

        route_failed(&r[0], 100 * S, 2 * S, "reset");
        ASSERT_EQ(pick(r, 2, 101 * S), -1); /* a collector that restarts is no reason to move */
        ASSERT_EQ(pick(r, 2, 102 * S), 0);
}

static void test_failover_and_back(void) {
        struct uplink_route r[3] = { 0 };

        route_failed(&r[0], 100 * S, 1 * S, "refused");
        route_failed(&r[0], 101 * S, 2 * S, "refused");
        ASSERT_EQ(pick(r, 3, 101 * S), 1); /* at once */
        ASSERT_EQ(pick(r, 3, 130 * S), 1);
        ASSERT_EQ(pick(r, 3, 131 * S), 0); /* ROUTE_AVOID is over */
        route_failed(&r[0], 131 * S, 0, "refused");
        ASSERT_EQ(pick(r, 3, 190 * S), 1); /* one more failure: twice as long */
        ASSERT_EQ(pick(r, 3, 191 * S), 0);
        for (unsigned i = 0; i < 100; i++)
                route_failed(&r[0], 200 * S, 0, "refused");
        ASSERT_EQ(r[0].avoid_boot, 200 * S + ROUTE_AVOID_MAX);
        route_worked(&r[0]);
        ASSERT_EQ(pick(r, 3, 200 * S), 0);
}

static void test_parked_ones_are_passed_over(void) {
        struct uplink_route r[2] = { 0 };
        usec_t at = 0;

        route_park(&r[0], 100 * S, 60 * S, "HTTP 401");
        ASSERT_EQ(pick(r, 2, 100 * S), 1);
        ASSERT_EQ(pick(r, 2, 160 * S), 0); /* its try a minute */
        route_park(&r[1], 101 * S, 60 * S, "HTTP 403");
        ASSERT_EQ(route_pick(r, 2, 102 * S, &at), -1);
        ASSERT_EQ(at, 160 * S); /* the first that may be tried */
        route_failed(&r[0], 160 * S, 1 * S, "reset");
        ASSERT_FALSE(r[0].parked);
}

static void test_a_long_retry_after_moves_on(void) {
        struct uplink_route r[2] = { 0 };

        route_failed(&r[0], 100 * S, 600 * S, "HTTP 503");
        ASSERT_EQ(pick(r, 2, 100 * S), 1);
        ASSERT_EQ(pick(r, 2, 699 * S), 1); /* it has asked to be left alone until then */
        ASSERT_EQ(pick(r, 2, 700 * S), 0);
}

static void test_more_endpoints_never_mean_later_tries(void) {
        struct uplink_route r[2] = { 0 };
        usec_t at = 0;

        for (unsigned i = 0; i < 10; i++) {
                route_failed(&r[0], 100 * S, 20 * S, "dead");
                route_failed(&r[1], 100 * S, 7 * S, "dead");
        }
        ASSERT_EQ(route_pick(r, 2, 101 * S, &at), -1);
        ASSERT_EQ(at, 107 * S);
        ASSERT_EQ(pick(r, 2, 107 * S), 1);
        ASSERT_EQ(pick(r, 2, 121 * S), 1);
        route_failed(&r[1], 107 * S, 30 * S, "dead");
        ASSERT_EQ(pick(r, 2, 121 * S), 0);
}

TEST_MAIN(test_one_endpoint_waits_and_is_tried_again, test_one_failure_is_waited_out, test_failover_and_back,
          test_parked_ones_are_passed_over, test_a_long_retry_after_moves_on,
          test_more_endpoints_never_mean_later_tries)
