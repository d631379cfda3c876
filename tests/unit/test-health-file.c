/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives the agent: a restart goes on where it was, a boot keeps the orders only, damage is found. */
#include "health_file.h"
#include "test.h"

#define T0 ((usec_t) 1795237200000000)

static const struct health_policy policy = {
        .fail_after = 1, .heal_after = 2, .flap_after = 3, .flap_window = 1000
};

static int take(struct check_table *t, const char *subject, enum verdict v, usec_t now,
                struct check_change *c) {
        struct finding f;

        finding_init(&f, "nic.mtu", subject);
        f.verdict = v;
        finding_set(f.found, "%s", verdict_name(v));
        return check_table_take(t, &policy, 0, (unsigned) now, &f, now, c);
}

/* eth0 got bad twice, eth1 was always good, eth2 is bad. */
static char *make(struct check_table *t) {
        struct orders o = { 0 };
        struct order cordon = {
                .kind = ORDER_CORDON, .reason = "bad cable", .by = "root", .since = T0, .boot_id = "b1"
        };
        struct check_change c;
        char *text;

        ASSERT_OK(check_table_init(t));
        (void) take(t, "eth0", VERDICT_OK, 1, &c);
        (void) take(t, "eth1", VERDICT_OK, 1, &c);
        (void) take(t, "eth2", VERDICT_FAIL, 1, &c);
        (void) take(t, "eth0", VERDICT_FAIL, 2, &c);
        (void) take(t, "eth0", VERDICT_OK, 3, &c);
        (void) take(t, "eth0", VERDICT_OK, 4, &c);
        (void) take(t, "eth0", VERDICT_WARN, 5, &c);
        ASSERT_OK(orders_set(&o, &cordon));
        text = health_file_format(&o, t, HOST_UNFIT, "b1", T0);
        ASSERT_TRUE(text);
        return text;
}

static void a_restart_goes_on(void) {
        struct check_table t, u;
        struct check_change c;
        struct health_memory m = { 0 };
        char why[STATE_FILE_WHY_MAX];
        _cleanup_free_ char *text = make(&t);

        ASSERT_OK(health_file_parse(text, strlen(text), "b1", &m, why));
        ASSERT_TRUE(m.same_boot);
        ASSERT_EQ(m.state, HOST_UNFIT);
        ASSERT_EQ(m.bad, 0);
        ASSERT_STREQ(orders_find(&m.orders, ORDER_CORDON)->reason, "bad cable");
        ASSERT_EQ(json_array_size(m.checks), 2);
        ASSERT_OK(check_table_init(&u));
        check_table_remember(&u, json_incref(m.checks));
        ASSERT_EQ(check_table_state(&u), HOST_UNKNOWN);       /* memory alone is no finding */
        ASSERT_EQ(take(&u, "eth2", VERDICT_FAIL, 10, &c), 0); /* no news */
        ASSERT_EQ(u.health[0].since, 1);
        ASSERT_EQ(take(&u, "eth0", VERDICT_OK, 10, &c), 0); /* it heals after two, as before */
        ASSERT_EQ(u.health[1].settled, VERDICT_WARN);
        ASSERT_STREQ(u.entries[1].settled->found, "WARN");
        ASSERT_EQ(u.health[1].worsened, 2);
        ASSERT_EQ(u.health[1].since, 5);
        ASSERT_EQ(take(&u, "eth0", VERDICT_OK, 11, &c), 1);
        ASSERT_EQ(c.from, VERDICT_WARN);
        ASSERT_EQ(take(&u, "eth0", VERDICT_FAIL, 12, &c), 1);
        ASSERT_TRUE(u.health[1].flapping); /* twice before the restart, once after */
        ASSERT_EQ(take(&u, "eth1", VERDICT_FAIL, 12, &c), 1);
        ASSERT_EQ(c.from, _VERDICT_MAX);
        check_table_clear(&t);
        check_table_clear(&u);
        health_memory_clear(&m);
}

static void a_boot_keeps_orders_only(void) {
        struct health_memory m = { 0 };
        struct check_table t;
        char why[STATE_FILE_WHY_MAX];
        _cleanup_free_ char *text = make(&t);

        ASSERT_OK(health_file_parse(text, strlen(text), "b2", &m, why));
        ASSERT_FALSE(m.same_boot);
        ASSERT_FALSE(m.checks);
        ASSERT_TRUE(orders_find(&m.orders, ORDER_CORDON));
        health_memory_clear(&m);
        check_table_clear(&t);
}

/* An order that is none is counted, and the others stand. */
static void an_order_of_an_unknown_kind_is_counted(void) {
        static const char text[] =
                "{\"boot_id\": \"b1\", \"state\": \"gone\","
                "\"orders\": [{\"kind\": \"quarantine\", \"x\": 1}, {\"kind\": \"drain\", \"check\": \"\","
                "\"subject\": \"\", \"reason\": \"r\", \"by\": \"root\", \"since_usec\": 5, \"until_usec\": "
                "0,"
                "\"since_boot_usec\": 1, \"boot_id\": \"b0\", \"drained\": false}], \"checks\": []}";
        struct health_memory m = { 0 };
        char why[STATE_FILE_WHY_MAX];

        ASSERT_OK(health_file_parse(text, strlen(text), "b1", &m, why));
        ASSERT_EQ(m.bad, 1);
        ASSERT_EQ(m.state, HOST_UNKNOWN);
        ASSERT_TRUE(orders_find(&m.orders, ORDER_DRAIN));
        health_memory_clear(&m);
}

/* Every cut and many flipped bits: an answer, never more than what was written. */
static void damage(void) {
        struct health_memory m;
        struct check_table t, u;
        struct check_change c;
        char why[STATE_FILE_WHY_MAX];
        _cleanup_free_ char *text = make(&t), *copy = strdup(text);
        size_t len = strlen(text);

        for (size_t n = 0; n < len; n++)
                ASSERT_EQ(health_file_parse(text, n, "b1", &m, why), -EBADMSG);
        srandom(test_seed());
        for (int i = 0; i < 20000; i++) {
                memcpy(copy, text, len + 1);
                for (int k = 0; k <= i % 3; k++)
                        copy[(size_t) random() % len] ^= (char) (1 << random() % 8);
                m = (struct health_memory){ 0 };
                if (health_file_parse(copy, len, "b1", &m, why) < 0)
                        continue;
                ASSERT_OK(check_table_init(&u));
                check_table_remember(&u, json_incref(m.checks));
                (void) take(&u, "eth0", VERDICT_OK, 10, &c);
                ASSERT_TRUE(u.health[0].since <= 10);
                check_table_clear(&u);
                health_memory_clear(&m);
        }
        check_table_clear(&t);
}

TEST_MAIN(a_restart_goes_on, a_boot_keeps_orders_only, an_order_of_an_unknown_kind_is_counted, damage)
