/* SPDX-License-Identifier: Apache-2.0 */
/* The MTU rule for a container's NIC that the host makes: what carries its packets on the host bounds it. */
#include <net/if_arp.h>

#include "intent.h"
#include "plan.h"
#include "test.h"

static struct link made(uint32_t mtu, uint32_t carried, const char *by) {
        struct link l = { .index = 2,
                          .name = "eth0",
                          .kind = "veth",
                          .arp_type = ARPHRD_ETHER,
                          .address_len = 6,
                          .mtu = mtu,
                          .min_mtu = 68,
                          .max_mtu = 65535,
                          .peer_elsewhere = true,
                          .carried_mtu = carried };

        (void) snprintf(l.carried_by, sizeof(l.carried_by), "%s", by);
        return l;
}

static void test_rule_and_verdict(void) {
        static const struct {
                uint32_t network, mtu, carried;
                const char *by;
                uint32_t wanted;
                enum verdict verdict;
                const char *reason;
        } t[] = {
                { 0, 1460, 8896, "eth1", 8896, VERDICT_FAIL, "" },
                { 0, 8896, 8896, "eth1", 8896, VERDICT_OK, "" },
                { 8896, 8896, 8896, "eth1", 8896, VERDICT_OK, "" },
                { 0, 8896, 9000, "eth1", 8896, VERDICT_OK, "" },
                { 0, 1500, 1500, "docker0", 1500, VERDICT_WARN, "docker0 of the host, which carries 1500" },
                { 8896, 1460, 1500, "docker0", 1500, VERDICT_FAIL, "docker0 of the host" },
                { 8896, 8896, 1500, "docker0", 1500, VERDICT_FAIL, "docker0 of the host" },
                { 1460, 1460, 1500, "docker0", 1460, VERDICT_FAIL, "the network carries 1460" },
                { 1460, 8896, 8896, "eth1", 1460, VERDICT_FAIL, "the network carries 1460" },
                { 8896, 1500, 1500, "", 1500, VERDICT_WARN, "not known: never raised" },
                { 0, 8896, 8896, "", 8896, VERDICT_OK, "" },
                { 0, 65535, 65535, "", 65535, VERDICT_WARN, "not known" }, /* is it too large? */
                { 8896, 65535, 65535, "", 8896, VERDICT_FAIL, "" },
        };

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                struct intent i = { .mtu = 8896, .network_mtu = t[k].network };
                struct link l = made(t[k].mtu, t[k].carried, t[k].by);
                struct finding f;

                ASSERT_EQ(intent_mtu(&i, &l, NULL), t[k].wanted);
                intent_judge_mtu(&i, &l, &f);
                ASSERT_STREQ(verdict_name(f.verdict), verdict_name(t[k].verdict));
                ASSERT_TRUE(strstr(f.reason, t[k].reason) != NULL);
                ASSERT_EQ(f.remedy[0] != 0, t[k].verdict != VERDICT_OK);
        }
}

static void test_none_wanted_or_possible(void) {
        struct intent i = { .mtu = 0 };
        struct link l = made(1460, 8896, "eth1");
        const char *why = NULL;

        ASSERT_EQ(intent_mtu(&i, &l, &why), 0);
        ASSERT_STREQ(why, "the profile wants no MTU");
        i.mtu = 8896;
        l.min_mtu = 2000;
        l.carried_mtu = 1500;
        ASSERT_EQ(intent_mtu(&i, &l, &why), 0);
        ASSERT_TRUE(strstr(why, "smallest MTU") != NULL);
}

static void test_plan_says_who_bounds_it(void) {
        struct link l = made(1460, 1500, "docker0");
        struct intent i = { .mtu = 8896 };
        struct found f = { .links = { &l, 1 } };
        _cleanup_plan_ struct plan p = PLAN_NULL;

        ASSERT_OK(plan_make(&i, &f, &p));
        ASSERT_EQ(p.n, 1);
        ASSERT_STREQ(p.ops[0].to, "1500");
        ASSERT_STREQ(p.ops[0].source, "what carries it on the host");
}

TEST_MAIN(test_rule_and_verdict, test_none_wanted_or_possible, test_plan_says_who_bounds_it)
