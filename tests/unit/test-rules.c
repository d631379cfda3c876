/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/fib_rules.h>
#include <linux/if_addr.h>

#include "addresses.h"
#include "netlink-dump.h"
#include "scratch.h"

static void rule(struct dump *d, int family, const char *src, uint8_t len, uint8_t flags) {
        const struct fib_rule_hdr head = { .family = (uint8_t) family,
                                           .src_len = len,
                                           .table = RT_TABLE_UNSPEC,
                                           .action = FR_ACT_TO_TBL,
                                           .flags = flags };
        const uint8_t protocol = 147;

        begin(d, RTM_NEWRULE, &head, sizeof(head));
        if (src)
                address(d, family, FRA_SRC, src);
        number(d, FRA_TABLE, 847000003);
        number(d, FRA_PRIORITY, 28470);
        number(d, FRA_SUPPRESS_PREFIXLEN, UINT32_MAX);
        attribute(d, FRA_PROTOCOL, &protocol, sizeof(protocol));
}

static void test_rules(void) {
        _cleanup_rules_ struct rule_table t = RULE_TABLE_NULL;
        struct dump d = { .len = 0 };

        rule(&d, AF_INET, "10.0.1.5", 32, 0);
        end(&d);
        rule(&d, AF_INET6, NULL, 0, 0);
        end(&d);
        rule(&d, 128 /* RTNL_FAMILY_IPMR */, NULL, 0, 0);
        end(&d);
        done(&d);
        ASSERT_OK(rules_parse(d.data, d.len, &t));
        ASSERT_EQ(t.n, 2);
        ASSERT_EQ(t.rules[0].src_len, 32);
        ASSERT_EQ(t.rules[0].src[3], 5);
        ASSERT_EQ(t.rules[0].table, 847000003);
        ASSERT_EQ(t.rules[0].priority, 28470);
        ASSERT_EQ(t.rules[0].protocol, 147);
        ASSERT_EQ(t.rules[0].action, FR_ACT_TO_TBL);
        ASSERT_FALSE(t.rules[0].narrow || t.rules[1].narrow);
}

/* What asks for more than a source is told apart, also by an attribute that nobody knows. */
static void test_narrow_rules(void) {
        _cleanup_rules_ struct rule_table t = RULE_TABLE_NULL;
        struct dump d = { .len = 0 };

        rule(&d, AF_INET, "10.0.1.5", 32, FIB_RULE_INVERT);
        end(&d);
        rule(&d, AF_INET, "10.0.1.5", 32, 0);
        number(&d, FRA_FWMARK, 7);
        end(&d);
        rule(&d, AF_INET, "10.0.1.5", 32, 0);
        number(&d, FRA_SUPPRESS_PREFIXLEN, 0);
        end(&d);
        rule(&d, AF_INET, "10.0.1.5", 32, 0);
        number(&d, 99, 0);
        end(&d);
        done(&d);
        ASSERT_OK(rules_parse(d.data, d.len, &t));
        ASSERT_EQ(t.n, 4);
        for (size_t k = 0; k < t.n; k++)
                ASSERT_TRUE(t.rules[k].narrow);
}

static void test_covers(void) {
        static const struct {
                const char *src;
                uint8_t len;
                bool wanted;
        } cases[] = { { "10.0.1.5", 32, true },  { "10.0.1.4", 32, false }, { "10.0.1.4", 31, true },
                      { "10.0.1.6", 31, false }, { "10.0.0.0", 16, true },  { "0.0.0.0", 0, true } };
        uint8_t own[16] = { 10, 0, 1, 5 };

        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                struct rule r = { .family = AF_INET, .src_len = cases[k].len };

                ASSERT_EQ(inet_pton(AF_INET, cases[k].src, r.src), 1);
                ASSERT_EQ(rule_covers(&r, AF_INET, own), cases[k].wanted);
                ASSERT_FALSE(rule_covers(&r, AF_INET6, own));
        }
}

static void own_address(struct dump *d, int family, const char *text, const char *peer, uint8_t scope,
                        uint8_t flags) {
        const struct ifaddrmsg head = { .ifa_family = (uint8_t) family,
                                        .ifa_prefixlen = 24,
                                        .ifa_flags = flags,
                                        .ifa_scope = scope,
                                        .ifa_index = 3 };

        begin(d, RTM_NEWADDR, &head, sizeof(head));
        if (peer)
                address(d, family, IFA_LOCAL, text);
        address(d, family, IFA_ADDRESS, peer ? peer : text);
        end(d);
}

static void test_addresses(void) {
        _cleanup_addresses_ struct address_table t = ADDRESS_TABLE_NULL;
        struct dump d = { .len = 0 };

        own_address(&d, AF_INET, "127.0.0.1", "127.0.0.1", RT_SCOPE_HOST, 0);
        own_address(&d, AF_INET, "10.0.1.5", "10.0.1.9", RT_SCOPE_UNIVERSE, IFA_F_PERMANENT);
        own_address(&d, AF_INET6, "fe80::1", NULL, RT_SCOPE_LINK, 0);
        own_address(&d, AF_INET6, "fd00::5", NULL, RT_SCOPE_UNIVERSE, IFA_F_DADFAILED);
        own_address(&d, AF_INET6, "fd00::6", NULL, RT_SCOPE_UNIVERSE, 0);
        done(&d);
        ASSERT_OK(addresses_parse(d.data, d.len, &t));
        ASSERT_EQ(t.n, 2);
        ASSERT_EQ(t.addresses[0].bytes[3], 5); /* not the peer's */
        ASSERT_EQ(t.addresses[0].index, 3);
        ASSERT_EQ(t.addresses[0].prefix_len, 24);
        ASSERT_EQ(t.addresses[1].bytes[15], 6);
}

static void parse_both(const struct dump *d, size_t len, int wanted_rules, int wanted_addresses) {
        _cleanup_rules_ struct rule_table rules = RULE_TABLE_NULL;
        _cleanup_addresses_ struct address_table addresses = ADDRESS_TABLE_NULL;
        int a = rules_parse(d->data, len, &rules), b = addresses_parse(d->data, len, &addresses);

        if (wanted_rules <= 0)
                ASSERT_EQ(a, wanted_rules);
        if (wanted_addresses <= 0)
                ASSERT_EQ(b, wanted_addresses);
}

/* Every shorter dump is refused, and no changed byte reads or writes outside (sanitizers watch). */
static void test_cut_and_changed(void) {
        struct dump rules = { .len = 0 }, addresses = { .len = 0 };

        rule(&rules, AF_INET6, "fd00::5", 128, 0);
        end(&rules);
        done(&rules);
        own_address(&addresses, AF_INET, "10.0.1.5", "10.0.1.9", RT_SCOPE_UNIVERSE, 0);
        done(&addresses);
        parse_both(&rules, rules.len, 0, -EBADMSG);
        parse_both(&addresses, addresses.len, -EBADMSG, 0);
        for (size_t n = 0; n < rules.len; n++)
                parse_both(&rules, n, -EBADMSG, -EBADMSG);
        for (size_t n = 0; n < addresses.len; n++)
                parse_both(&addresses, n, -EBADMSG, -EBADMSG);
        srandom(test_seed());
        for (int round = 0; round < 20000; round++) {
                struct dump bad = round % 2 ? rules : addresses;

                for (int k = 0; k < 3; k++)
                        bad.data[(size_t) random() % bad.len] = (unsigned char) random();
                parse_both(&bad, bad.len, 1, 1);
        }
}

static void test_too_many(void) {
        _cleanup_free_ struct dump *d = calloc(1, sizeof(*d));
        _cleanup_free_ unsigned char *all = NULL;
        struct rule_table t = RULE_TABLE_NULL;
        size_t one, len = 0;

        ASSERT_TRUE(d != NULL);
        rule(d, AF_INET, "10.0.1.5", 32, 0);
        end(d);
        one = d->len;
        all = malloc((RULES_MAX + 1) * one);
        ASSERT_TRUE(all != NULL);
        for (size_t k = 0; k <= RULES_MAX; k++, len += one)
                memcpy(all + len, d->data, one);
        ASSERT_EQ(rules_parse(all, len, &t), -E2BIG);
}

static void test_no_dump(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        struct rule_table rules = RULE_TABLE_NULL;
        struct address_table addresses = ADDRESS_TABLE_NULL;

        ASSERT_OK(host_open(s.path, &h));
        ASSERT_EQ(rules_read(&h, &rules), -ENODATA); /* never the real machine's */
        ASSERT_EQ(addresses_read(&h, &addresses), -ENODATA);
}

static void test_live(void) {
        _cleanup_rules_ struct rule_table rules = RULE_TABLE_NULL;
        _cleanup_addresses_ struct address_table addresses = ADDRESS_TABLE_NULL;
        _cleanup_host_ struct host h = HOST_NULL;

        ASSERT_OK(host_open(NULL, &h));
        ASSERT_OK(rules_read(&h, &rules));
        ASSERT_TRUE(rules.n >= 1); /* local, main, default */
        ASSERT_OK(addresses_read(&h, &addresses));
}

TEST_MAIN(test_rules, test_narrow_rules, test_covers, test_addresses, test_cut_and_changed, test_too_many,
          test_no_dump, test_live)
