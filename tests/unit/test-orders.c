/* SPDX-License-Identifier: Apache-2.0 */
/* What people ordered: one of each kind, an end on the right clock, what it says. */
#include "orders.h"
#include "test.h"

#define HOUR (3600 * USEC_PER_SEC)
#define T0 ((usec_t) 1795237200000000) /* 2026-11-21T05:00:00Z */

static struct order order(enum order_kind k, const char *check, const char *subject, usec_t until) {
        struct order o = { .kind = k, .since = T0, .until = until, .since_boot = HOUR };

        (void) snprintf(o.check, sizeof(o.check), "%s", check);
        (void) snprintf(o.subject, sizeof(o.subject), "%s", subject);
        (void) snprintf(o.reason, sizeof(o.reason), "bad cable");
        (void) snprintf(o.by, sizeof(o.by), "root (login alice)");
        (void) snprintf(o.boot_id, sizeof(o.boot_id), "b1");
        return o;
}

static void one_of_each(void) {
        struct orders l = { 0 };
        struct order o = order(ORDER_CORDON, "", "", 0), out;

        ASSERT_OK(orders_set(&l, &o));
        (void) snprintf(o.reason, sizeof(o.reason), "another");
        ASSERT_OK(orders_set(&l, &o));
        ASSERT_EQ(l.n, 1);
        ASSERT_STREQ(orders_find(&l, ORDER_CORDON)->reason, "another");
        ASSERT_FALSE(orders_find(&l, ORDER_DRAIN));
        for (int i = 1; i < ORDERS_MAX + 1; i++) {
                char subject[16];

                (void) snprintf(subject, sizeof(subject), "s%d", i);
                o = order(ORDER_SILENCE, "nic", subject, T0 + HOUR);
                ASSERT_EQ(orders_set(&l, &o), i < ORDERS_MAX ? 0 : -ENOSPC);
        }
        ASSERT_EQ(orders_end(&l, ORDER_SILENCE, "nic", "s7", &out), 1);
        ASSERT_STREQ(out.subject, "s7");
        ASSERT_EQ(orders_end(&l, ORDER_SILENCE, "nic", "s7", &out), 0);
        ASSERT_EQ(l.n, ORDERS_MAX - 1);
}

static void which_silence(void) {
        struct orders l = { 0 };
        struct order group = order(ORDER_SILENCE, "nic", "", T0 + HOUR),
                     exact = order(ORDER_SILENCE, "nic.mtu", "eth1", T0 + HOUR);

        ASSERT_OK(orders_set(&l, &exact));
        ASSERT_FALSE(orders_silence_of(&l, "nic.mtu", "eth0"));
        ASSERT_OK(orders_set(&l, &group));
        ASSERT_STREQ(orders_silence_of(&l, "nic.mtu", "eth1")->check, "nic.mtu");
        ASSERT_STREQ(orders_silence_of(&l, "nic.mtu", "eth0")->check, "nic");
        ASSERT_FALSE(orders_silence_of(&l, "nics.mtu", "eth0"));
        ASSERT_FALSE(orders_silence_of(&l, "ni", ""));
}

/* In its own boot the boot clock counts: neither a jump ahead nor one back of the real clock matters. */
static void ends(void) {
        struct orders l = { 0 };
        struct order o = order(ORDER_CORDON, "", "", T0 + HOUR), out;

        ASSERT_OK(orders_set(&l, &o));
        ASSERT_EQ(orders_expire(&l, &(struct order_time){ HOUR + 10, T0 + 5 * HOUR, "b1" }, &out), 0);
        ASSERT_EQ(orders_expire(&l, &(struct order_time){ 2 * HOUR - 1, T0 - HOUR, "b1" }, &out), 0);
        ASSERT_EQ(orders_expire(&l, &(struct order_time){ 2 * HOUR, T0 - HOUR, "b1" }, &out), 1);
        ASSERT_EQ(l.n, 0);
        ASSERT_OK(orders_set(&l, &o)); /* after a reboot, the real clock does */
        ASSERT_EQ(orders_expire(&l, &(struct order_time){ 9 * HOUR, T0 + HOUR - 1, "b2" }, &out), 0);
        ASSERT_EQ(orders_expire(&l, &(struct order_time){ 10, T0 + HOUR, "b2" }, &out), 1);
        o.until = 0;
        ASSERT_OK(orders_set(&l, &o));
        ASSERT_EQ(orders_expire(&l, &(struct order_time){ 1000 * HOUR, 2 * T0, "b1" }, &out), 0);
}

static void texts(void) {
        struct order o = order(ORDER_CORDON, "", "", T0 + HOUR);
        char buf[256], small[16], long_text[ORDER_REASON_MAX + 1];
        json_t *v;

        ASSERT_STREQ(order_text(&o, buf, sizeof(buf)),
                     "cordoned by root (login alice) until 2026-11-21T06:00:00Z: bad cable");
        ASSERT_TRUE(strlen(order_text(&o, small, sizeof(small))) < sizeof(small));
        v = order_to_public_json(&o);
        ASSERT_STREQ(json_string_value(json_object_get(v, "since")), "2026-11-21T05:00:00Z");
        ASSERT_FALSE(json_object_get(v, "check"));
        json_decref(v);
        memset(long_text, 'x', sizeof(long_text) - 1);
        long_text[sizeof(long_text) - 1] = 0;
        ASSERT_EQ(order_check_reason(long_text), -E2BIG);
        ASSERT_EQ(order_check_reason(long_text + 1), 0);
        ASSERT_EQ(order_check_reason("r\xc3\xa4umen"), 0);
        ASSERT_EQ(order_check_reason(""), -EINVAL);
        ASSERT_EQ(order_check_reason("  "), -EINVAL);
        ASSERT_EQ(order_check_reason("a\nb"), -EINVAL);
        ASSERT_EQ(order_check_reason("\x1b[31m"), -EINVAL);
        ASSERT_EQ(order_check_reason("\xff"), -EINVAL);
}

TEST_MAIN(one_of_each, which_silence, ends, texts)
