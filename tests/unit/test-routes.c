/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/rtnetlink.h>

#include "netlink-dump.h"
#include "route_words.h"
#include "scratch.h"
#include "test.h"

static void begin_route(struct dump *d, const struct rtmsg *m) {
        begin(d, RTM_NEWROUTE, m, sizeof(*m));
}

static void default_route(struct dump *d, uint32_t priority) {
        const uint32_t metrics[] = { 8 | (RTAX_LOCK << 16), 1U << RTAX_RTO_MIN, 8 | (RTAX_RTO_MIN << 16), 5,
                                     8 | (RTAX_MTU << 16),  1400 };

        begin_route(d, &(struct rtmsg){
                               .rtm_family = AF_INET, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST });
        address(d, AF_INET, RTA_GATEWAY, "10.10.0.1");
        number(d, RTA_OIF, 2);
        number(d, RTA_PRIORITY, priority);
        attribute(d, RTA_METRICS, metrics, sizeof(metrics));
        end(d);
}

static void plain_route(struct dump *d, int family, const char *dst, uint8_t len, uint8_t type,
                        uint8_t table) {
        begin_route(d, &(struct rtmsg){ .rtm_family = (uint8_t) family,
                                  .rtm_dst_len = len,
                                  .rtm_table = table,
                                  .rtm_type = type });
        address(d, family, RTA_DST, dst);
        number(d, RTA_OIF, 3);
        end(d);
}

static void test_fields(void) {
        _cleanup_routes_ struct route_table t = ROUTE_TABLE_NULL;
        struct dump d = { .len = 0 };
        char text[ROUTE_DST_MAX];

        plain_route(&d, AF_INET, "10.10.0.5", 32, RTN_LOCAL, RT_TABLE_LOCAL);
        default_route(&d, 100);
        plain_route(&d, AF_INET6, "fe80::", 64, RTN_UNICAST, RT_TABLE_MAIN);
        plain_route(&d, AF_INET6, "fd00::", 64, RTN_UNICAST, 77);
        done(&d);
        ASSERT_OK(routes_parse(d.data, d.len, &t));
        ASSERT_EQ(t.n, 2);
        ASSERT_TRUE(route_is_default(&t.routes[0]) && t.routes[0].has_gateway);
        ASSERT_EQ(t.routes[0].gateway[3], 1);
        ASSERT_EQ(t.routes[0].rto_min_ms, 5);
        ASSERT_TRUE(t.routes[0].rto_min_locked);
        ASSERT_EQ(t.routes[0].metrics[RTAX_MTU], 1400);
        ASSERT_EQ(t.routes[0].locks, 1U << RTAX_RTO_MIN);
        ASSERT_EQ(t.routes[0].type, RTN_UNICAST);
        ASSERT_EQ(t.routes[0].priority, 100);
        ASSERT_EQ(t.routes[0].n_hops, 1);
        ASSERT_EQ(t.routes[0].hops[0], 2);
        ASSERT_EQ(t.routes[1].table, 77);
        ASSERT_FALSE(t.routes[0].ambiguous || t.routes[1].ambiguous || t.routes[1].rto_min_ms);
        route_format_dst(&t.routes[1], text);
        ASSERT_STREQ(text, "fd00::/64");
}

static struct route read_route(struct dump *d) {
        _cleanup_routes_ struct route_table t = ROUTE_TABLE_NULL;

        done(d);
        ASSERT_OK(routes_parse(d->data, d->len, &t));
        ASSERT_EQ(t.n, 1);
        return t.routes[0];
}

static void test_words(void) {
        const uint32_t metrics[] = { 8 | (RTAX_LOCK << 16),   1U << RTAX_MTU, 8 | (RTAX_MTU << 16), 1400,
                                     8 | (RTAX_ADVMSS << 16), 1360 };
        struct dump d = { .len = 0 };
        char text[ROUTE_WORDS_MAX], word[ROUTE_WORD_MAX];
        struct route r;

        begin_route(&d, &(struct rtmsg){ .rtm_family = AF_INET,
                                         .rtm_dst_len = 24,
                                         .rtm_table = RT_TABLE_MAIN,
                                         .rtm_scope = RT_SCOPE_LINK,
                                         .rtm_protocol = RTPROT_DHCP,
                                         .rtm_type = RTN_UNICAST });
        address(&d, AF_INET, RTA_DST, "10.10.1.0");
        address(&d, AF_INET, RTA_PREFSRC, "10.10.1.5");
        number(&d, RTA_OIF, 3);
        number(&d, RTA_PRIORITY, 100);
        attribute(&d, RTA_METRICS, metrics, sizeof(metrics));
        end(&d);
        r = read_route(&d);
        ASSERT_STREQ(route_words(&r, "eth1", text),
                     "unicast route to 10.10.1.0/24 by eth1 from table main, protocol dhcp, metric 100, mtu "
                     "1400 locked, advmss 1360");
        ASSERT_STREQ(route_arguments(&r, "eth1", true, text),
                     "10.10.1.0/24 dev eth1 proto dhcp scope link src 10.10.1.5 metric 100 mtu lock 1400 "
                     "advmss 1360");
        ASSERT_STREQ(route_arguments(&r, "eth1", false, text),
                     "10.10.1.0/24 dev eth1 proto dhcp scope link src 10.10.1.5 metric 100");
        ASSERT_STREQ(route_arguments(&r, NULL, false, text), "");
        ASSERT_STREQ(route_owner(r.protocol), "a DHCP client");
        r.n_hops = 2; /* no single line says such a route */
        ASSERT_STREQ(route_arguments(&r, "eth1", true, text), "");
        d.len = 0;
        default_route(&d, 0);
        r = read_route(&d);
        ASSERT_STREQ(route_words(&r, "eth0", text),
                     "unicast default route by eth0 via 10.10.0.1 from table main, protocol 0, mtu 1400");
        ASSERT_STREQ(route_arguments(&r, "eth0", false, text),
                     "default via 10.10.0.1 dev eth0 proto 0 rto_min 5ms"); /* ip(8) locks it itself */
        d.len = 0;
        begin_route(&d, &(struct rtmsg){ .rtm_family = AF_INET6,
                                         .rtm_dst_len = 128,
                                         .rtm_table = 77,
                                         .rtm_protocol = 147,
                                         .rtm_type = RTN_BLACKHOLE });
        address(&d, AF_INET6, RTA_DST, "fd00::13");
        number(&d, RTA_OIF, 1); /* lo, as the kernel says it of IPv6 */
        end(&d);
        r = read_route(&d);
        ASSERT_STREQ(route_words(&r, NULL, text),
                     "blackhole route to fd00::13/128 from table 77, protocol tpu-netcfg");
        ASSERT_STREQ(route_arguments(&r, NULL, true, text), "blackhole fd00::13/128 table 77 proto 147");
        ASSERT_STREQ(route_ip_family(&r), "ip -6");
        ASSERT_STREQ(route_type_word(17, word), "type 17");
        ASSERT_STREQ(route_table_word(RT_TABLE_DEFAULT, word), "default");
        ASSERT_STREQ(route_owner(200), "a program that the kernel does not name");
}

/* What "ip route replace" is not told again is gone: nothing of a person's but what makes the route slow. */
static void test_settings_are_kept(void) {
        const uint32_t metrics[] = { 8 | (RTAX_LOCK << 16),      1U << RTAX_INITCWND | 1U << RTAX_QUICKACK,
                                     8 | (RTAX_WINDOW << 16),    2000,
                                     8 | (RTAX_INITCWND << 16),  40,
                                     8 | (RTAX_FEATURES << 16),  RTAX_FEATURE_ECN,
                                     8 | (RTAX_QUICKACK << 16),  1,
                                     8 | (RTAX_CC_ALGO << 16),   0x00726262 }; /* "bbr" */
        const uint32_t strange[] = { 8 | (RTAX_CC_ALGO << 16), 0x00603b62 };   /* "b;`" */
        struct dump d = { .len = 0 };
        char text[ROUTE_WORDS_MAX];
        struct route r;

        begin_route(&d, &(struct rtmsg){ .rtm_family = AF_INET,
                                         .rtm_table = RT_TABLE_MAIN,
                                         .rtm_protocol = RTPROT_STATIC,
                                         .rtm_type = RTN_UNICAST });
        address(&d, AF_INET, RTA_GATEWAY, "10.10.0.1");
        number(&d, RTA_OIF, 2);
        attribute(&d, RTA_METRICS, metrics, sizeof(metrics));
        end(&d);
        r = read_route(&d);
        ASSERT_TRUE(route_is_slow(&r));
        ASSERT_STREQ(r.congestion, "bbr");
        ASSERT_STREQ(route_words(&r, "eth0", text),
                     "unicast default route by eth0 via 10.10.0.1 from table main, protocol static, window "
                     "2000, initcwnd 40 locked, features 1, quickack 1 locked, congctl bbr");
        ASSERT_STREQ(route_arguments(&r, "eth0", false, text),
                     "default via 10.10.0.1 dev eth0 proto static initcwnd lock 40 features ecn quickack 1 "
                     "congctl bbr");
        ASSERT_STREQ(route_arguments(&r, "eth0", true, text),
                     "default via 10.10.0.1 dev eth0 proto static window 2000");
        d.len = 0;
        begin_route(&d, &(struct rtmsg){ .rtm_family = AF_INET, .rtm_type = RTN_UNICAST });
        attribute(&d, RTA_METRICS, strange, sizeof(strange));
        end(&d);
        r = read_route(&d);
        ASSERT_STREQ(r.congestion, ""); /* no shell gets it */
}

/* ip(8) finds such a route by the object's number alone. */
static void test_nexthop_object(void) {
        const struct {
                struct rtnexthop a, b;
        } hops = { { .rtnh_len = 8, .rtnh_ifindex = 4 }, { .rtnh_len = 8, .rtnh_ifindex = 5 } };
        struct dump d = { .len = 0 };
        char text[ROUTE_WORDS_MAX];
        struct route r;

        begin_route(&d, &(struct rtmsg){ .rtm_family = AF_INET,
                                         .rtm_dst_len = 25,
                                         .rtm_table = RT_TABLE_MAIN,
                                         .rtm_protocol = RTPROT_BOOT,
                                         .rtm_type = RTN_UNICAST });
        address(&d, AF_INET, RTA_DST, "10.10.1.0");
        number(&d, RTA_NH_ID, 12);
        attribute(&d, RTA_MULTIPATH, &hops, sizeof(hops));
        end(&d);
        r = read_route(&d);
        ASSERT_STREQ(route_arguments(&r, NULL, true, text), "10.10.1.0/25 nhid 12");
        r.type = RTN_BLACKHOLE; /* so the kernel shows an object that is one */
        ASSERT_STREQ(route_arguments(&r, NULL, true, text), "10.10.1.0/25 nhid 12");
}

static void test_ambiguous(void) {
        _cleanup_routes_ struct route_table t = ROUTE_TABLE_NULL;
        struct dump d = { .len = 0 };

        default_route(&d, 100);
        default_route(&d, 200);
        default_route(&d, 100);
        default_route(&d, 100);
        default_route(&d, 50);
        done(&d);
        ASSERT_OK(routes_parse(d.data, d.len, &t));
        for (size_t i = 0; i < t.n; i++)
                ASSERT_EQ(t.routes[i].ambiguous, t.routes[i].priority == 100);
}

static void test_ways_to_nowhere(void) {
        _cleanup_routes_ struct route_table t = ROUTE_TABLE_NULL;
        struct dump d = { .len = 0 };

        plain_route(&d, AF_INET, "10.0.0.0", 8, RTN_BLACKHOLE, RT_TABLE_MAIN);
        plain_route(&d, AF_INET, "10.1.0.0", 16, RTN_THROW, 77);
        plain_route(&d, AF_INET, "224.0.0.0", 4, RTN_MULTICAST, RT_TABLE_MAIN);
        begin_route(&d, &(struct rtmsg){ .rtm_family = AF_INET6,
                                         .rtm_table = RT_TABLE_MAIN,
                                         .rtm_type = RTN_UNREACHABLE });
        end(&d);
        done(&d);
        ASSERT_OK(routes_parse(d.data, d.len, &t));
        ASSERT_EQ(t.n, 3);
        ASSERT_EQ(t.routes[0].type, RTN_BLACKHOLE);
        ASSERT_EQ(t.routes[1].type, RTN_THROW);
        ASSERT_FALSE(route_is_default(&t.routes[2])); /* it leads nowhere */
}

static void test_expiring_and_multipath(void) {
        const struct rta_cacheinfo cache = { .rta_expires = 1800 };
        const struct {
                struct rtnexthop a, b;
        } hops = { { .rtnh_len = 8, .rtnh_ifindex = 4 }, { .rtnh_len = 8, .rtnh_ifindex = 5 } };
        const struct rtnexthop bad = { .rtnh_len = 200 };
        _cleanup_routes_ struct route_table t = ROUTE_TABLE_NULL;
        struct dump d = { .len = 0 }, e = { .len = 0 };

        begin_route(&d, &(struct rtmsg){
                          .rtm_family = AF_INET6, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST });
        attribute(&d, RTA_CACHEINFO, &cache, sizeof(cache));
        attribute(&d, RTA_MULTIPATH, &hops, sizeof(hops));
        end(&d);
        done(&d);
        ASSERT_OK(routes_parse(d.data, d.len, &t));
        ASSERT_TRUE(t.routes[0].expires);
        ASSERT_EQ(t.routes[0].n_hops, 2);
        ASSERT_EQ(t.routes[0].hops[1], 5);

        begin_route(&e, &(struct rtmsg){ .rtm_family = AF_INET,
                                         .rtm_table = RT_TABLE_MAIN,
                                         .rtm_type = RTN_UNICAST });
        attribute(&e, RTA_MULTIPATH, &bad, sizeof(bad));
        end(&e);
        done(&e);
        ASSERT_EQ(routes_parse(e.data, e.len, &t), -EBADMSG);
}

/* Every shorter dump is refused, and no changed byte reads or writes outside (sanitizers watch). */
static void test_cut_and_changed(void) {
        struct dump d = { .len = 0 };

        default_route(&d, 100);
        plain_route(&d, AF_INET, "10.10.0.0", 24, RTN_UNICAST, RT_TABLE_MAIN);
        done(&d);
        for (size_t n = 0; n < d.len; n++) {
                struct route_table t = ROUTE_TABLE_NULL;

                ASSERT_EQ(routes_parse(d.data, n, &t), -EBADMSG);
        }
        srandom(test_seed());
        for (int round = 0; round < 20000; round++) {
                _cleanup_routes_ struct route_table t = ROUTE_TABLE_NULL;
                struct dump bad = d;

                for (int k = 0; k < 3; k++)
                        bad.data[(size_t) random() % d.len] = (unsigned char) random();
                (void) routes_parse(bad.data, d.len, &t);
        }
}

static void test_no_dump(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        struct route_table t = ROUTE_TABLE_NULL;

        ASSERT_OK(host_open(s.path, &h));
        ASSERT_EQ(routes_read(&h, &t), -ENODATA); /* never the real machine's */
}

static void test_live(void) {
        _cleanup_routes_ struct route_table t = ROUTE_TABLE_NULL;
        _cleanup_host_ struct host h = HOST_NULL;

        ASSERT_OK(host_open(NULL, &h));
        ASSERT_OK(routes_read(&h, &t));
}

TEST_MAIN(test_fields, test_words, test_settings_are_kept, test_nexthop_object, test_ways_to_nowhere,
          test_ambiguous, test_expiring_and_multipath, test_cut_and_changed, test_no_dump, test_live)
