/* SPDX-License-Identifier: Apache-2.0 */
#include "netsource-machine.h"

#define ROUNDS 4000
#define LONG_RULE "from 2001:db8:1111:2222:3333:4444:5555:6666 lookup 2994483647"

/* --- At random ---------------------------------------------------------------------------------------- */

static void random_route(struct machine *m) {
        static const char *const dsts[] = { "0.0.0.0",  "0.0.0.0", "10.0.0.0",  "10.0.1.0",
                                            "10.0.2.0", "10.9.0.0", "10.9.7.0", "10.0.1.1" };
        static const uint8_t lens[] = { 0, 0, 24, 24, 24, 16, 24, 32 };
        size_t k = pick(ELEMENTSOF(dsts));
        struct route r = main_route(dsts[k], lens[k], 2 + (int) pick(NICS + 1), pick(2) ? "10.0.1.1" : NULL);

        r.priority = pick(3) * 100 + (uint32_t) m->found.routes.n; /* no two at one place */
        r.onlink = r.has_gateway && pick(4) == 0;
        r.metrics[RTAX_MTU] = pick(3) * 1400;
        r.locks = r.metrics[RTAX_MTU] && pick(2) ? 1U << RTAX_MTU : 0;
        r.gateway[3] = (uint8_t) pick(3);
        if (pick(6) == 0) {
                r.n_hops = 2;
                r.hops[1] = 2 + (int) pick(NICS + 1);
        }
        if (pick(8) == 0)
                r.type = RTN_BLACKHOLE;
        r.special = pick(12) == 0;
        add_route(m, &r);
}

/* Addresses and main table anew; what is ours stays as it is. */
static void change(struct machine *m) {
        size_t kept = 0;

        for (size_t k = 0; k < m->found.routes.n; k++)
                if (m->routes[k].table != RT_TABLE_MAIN)
                        m->routes[kept++] = m->routes[k];
        m->found.routes.n = kept;
        for (uint32_t k = pick(12); k > 0; k--)
                random_route(m);
        m->found.addresses.n = 0;
        for (int k = 0; k < NICS; k++)
                for (uint32_t n = pick(3); n > 0; n--) {
                        char text[32];

                        (void) snprintf(text, sizeof(text), "10.0.%u.%u", pick(NICS), 10 + pick(4));
                        add_address(m, 2 + k, text, pick(2) ? 24 : 32);
                }
        m->intent.rto_min = pick(2) * 5 * USEC_PER_MSEC;
        m->intent.source_routing = pick(10) > 0;
        kept = 0;
        for (size_t k = 0; k < m->found.rules.n; k++)
                if (source_is_own_rule(&m->rules[k]))
                        m->rules[kept++] = m->rules[k];
        m->found.rules.n = kept;
        if (pick(4) == 0)
                add_rule(m, &(struct rule){ .family = AF_INET, .src = { 10, 0, (uint8_t) pick(NICS), 10 },
                                            .src_len = 32, .table = 7, .action = FR_ACT_TO_TBL,
                                            .narrow = pick(2) });
}

static bool by(const struct route *r, int index) {
        return r && r->type == RTN_UNICAST && r->n_hops == 1 && r->hops[0] == index;
}

/* One address on two NICs is nobody's test. */
static bool is_twice(const struct machine *m, const struct address *a) {
        size_t n = 0;

        for (size_t k = 0; k < m->found.addresses.n; k++)
                n += memcmp(m->addresses[k].bytes, a->bytes, 4) == 0;
        return n > 1;
}

static const uint8_t destinations[][16] = { { 10, 0, 0, 77 }, { 10, 0, 1, 1 }, { 10, 0, 1, 77 },
                                            { 10, 0, 2, 77 }, { 10, 9, 1, 1 }, { 10, 9, 7, 7 },
                                            { 8, 8, 8, 8 } };

/* Each packet leaves by the NIC of its source, or as the main table says: never anywhere else. */
static void assert_safe(const struct machine *m) {
        for (size_t k = 0; k < m->found.addresses.n; k++)
                for (size_t n = 0; n < ELEMENTSOF(destinations); n++) {
                        const struct address *a = &m->addresses[k];
                        const struct route *r = route_of(m, a, destinations[n]);

                        if (!is_twice(m, a))
                                ASSERT_TRUE(by(r, a->index) ||
                                            r == look_up(m, RT_TABLE_MAIN, a->family, destinations[n]));
                }
}

static bool is_elsewhere(const struct route *r) {
        return r && !(r->type == RTN_UNICAST && r->n_hops == 1 && !r->special && r->hops[0] < BRIDGE);
}

/* It takes a part of the NIC's own subnet, more than one host, to another device. */
static bool is_theft(const struct machine *m, int index, const struct route *r) {
        if (!r || r->type != RTN_UNICAST || r->n_hops != 1 || r->special || r->dst_len == 32)
                return false;
        for (size_t k = 0; k < m->found.addresses.n; k++) {
                const struct address *a = &m->addresses[k];

                if (a->index == index && a->prefix_len <= r->dst_len &&
                    prefix_covers(a->bytes, a->prefix_len, r->dst))
                        return true;
        }
        return false;
}

/* A route of that destination leads elsewhere than to a data-centre NIC: the main table is then right. */
static bool is_thrown(const struct machine *m, int index, const uint8_t *to) {
        for (size_t k = 0; k < m->found.routes.n; k++)
                if (m->routes[k].table == RT_TABLE_MAIN && m->routes[k].dst_len > 0 &&
                    matches(&m->routes[k], AF_INET, to) && is_elsewhere(&m->routes[k]) &&
                    !is_theft(m, index, &m->routes[k]))
                        return true;
        return false;
}

static size_t assert_leaves_by_its_nic(const struct machine *m) {
        size_t asserted = 0;

        for (size_t k = 0; k < m->found.addresses.n; k++) {
                const struct address *a = &m->addresses[k];
                const uint8_t nowhere[16] = { 250 };
                const struct route *way_out =
                        look_up(m, SOURCE_TABLE_BASE + (uint32_t) a->index, AF_INET, nowhere);

                if (is_twice(m, a) || source_foreign_rule(&m->found, a) || !way_out)
                        continue;
                for (size_t n = 0; n < ELEMENTSOF(destinations); n++) {
                        const struct route *usual = look_up(m, RT_TABLE_MAIN, AF_INET, destinations[n]);

                        if (!is_thrown(m, a->index, destinations[n]))
                                ASSERT_TRUE(by(route_of(m, a, destinations[n]), a->index));
                        else if (is_elsewhere(usual) && !is_theft(m, a->index, usual))
                                ASSERT_TRUE(route_of(m, a, destinations[n]) == usual);
                        asserted++;
                }
        }
        return asserted;
}

/* Writes the plan; safe after each write once the rules that are not wanted any more are gone. */
static size_t converge(struct machine *m) {
        _cleanup_plan_ struct plan p = PLAN_NULL, again = PLAN_NULL;
        size_t k = 0;

        ASSERT_OK(plan_add_source(&p, &m->intent, &m->found));
        for (; k < p.n && p.ops[k].kind == OP_RULE && streq(p.ops[k].to, SOURCE_ABSENT); k++)
                apply(m, &p.ops[k]);
        assert_safe(m);
        for (; k < p.n; k++) {
                _cleanup_plan_ struct plan rest = PLAN_NULL;

                apply(m, &p.ops[k]);
                assert_safe(m);
                ASSERT_OK(plan_add_source(&rest, &m->intent, &m->found));
                ASSERT_EQ(rest.n, p.n - k - 1);
        }
        ASSERT_OK(plan_add_source(&again, &m->intent, &m->found));
        ASSERT_EQ(again.n, 0);
        return p.n;
}

static void test_properties(void) {
        static struct machine m;
        size_t writes = 0, asserted = 0;

        srandom(test_seed());
        for (int round = 0; round < ROUNDS; round++) {
                if (round % 8 == 0)
                        init(&m);
                change(&m);
                writes += converge(&m);
                asserted += assert_leaves_by_its_nic(&m);
        }
        ASSERT_TRUE(writes > ROUNDS);
        ASSERT_TRUE(asserted > ROUNDS);
}

/* What others did to our rules and routes is put right; what they have themselves stays. */
static void test_drift(void) {
        static struct machine m;
        size_t damaged = 0;

        srandom(test_seed());
        for (int round = 0; round < ROUNDS; round++) {
                _cleanup_plan_ struct plan p = PLAN_NULL;
                const struct route foreign = { .family = AF_INET, .type = RTN_UNICAST,
                                               .protocol = RTPROT_STATIC, .table = SOURCE_TABLE_BASE + 2,
                                               .priority = 7, .n_hops = 1,
                                               .dst = { 77 }, .dst_len = 8, .hops = { BRIDGE } };
                size_t others = 0;

                if (round % 8 == 0)
                        init(&m);
                change(&m);
                (void) converge(&m);
                add_route(&m, &foreign);
                for (size_t k = m.found.routes.n; k-- > 0;) {
                        if (!source_is_own_route(&m.routes[k]) || pick(3))
                                continue;
                        damaged++;
                        if (pick(2))
                                m.routes[k] = m.routes[--m.found.routes.n];
                        else {
                                m.routes[k].hops[0] = BRIDGE;
                                m.routes[k].type = RTN_UNICAST;
                        }
                }
                for (size_t k = m.found.rules.n; k-- > 0;)
                        if (source_is_own_rule(&m.rules[k]) && pick(3) == 0)
                                m.rules[k].priority = 5;
                ASSERT_OK(plan_add_source(&p, &m.intent, &m.found));
                for (size_t k = 0; k < p.n; k++)
                        apply(&m, &p.ops[k]);
                ASSERT_EQ(converge(&m), 0);
                (void) assert_leaves_by_its_nic(&m);
                for (size_t k = 0; k < m.found.routes.n; k++)
                        others += m.routes[k].protocol == RTPROT_STATIC;
                ASSERT_EQ(others, round % 8 + 1);
        }
        ASSERT_TRUE(damaged > ROUNDS / 2);
}

static void test_removal(void) {
        static struct machine m;

        srandom(test_seed());
        for (int round = 0; round < 200; round++) {
                _cleanup_plan_ struct plan own = PLAN_NULL, p = PLAN_NULL;
                size_t rules = 0;

                init(&m);
                change(&m);
                (void) converge(&m);
                for (size_t k = 0; k < m.found.rules.n; k++)
                        rules += !source_is_own_rule(&m.rules[k]);
                ASSERT_OK(source_found(&m.found.rules, &m.found.routes, &m.found.links, &own));
                ASSERT_OK(source_add_removal(&p, &own, "a test"));
                ASSERT_EQ(p.n, own.n);
                for (size_t k = 0; k < p.n; k++) {
                        apply(&m, &p.ops[k]);
                        assert_safe(&m);
                }
                ASSERT_EQ(m.found.rules.n, rules);
                for (size_t k = 0; k < m.found.routes.n; k++)
                        ASSERT_EQ(m.routes[k].table, RT_TABLE_MAIN);
        }
}

/* --- By hand ------------------------------------------------------------------------------------------ */

static bool has(const struct plan *p, const char *subject, const char *to) {
        for (size_t k = 0; k < p->n; k++)
                if (streq(p->ops[k].subject, subject) && streq(p->ops[k].to, to))
                        return true;
        return false;
}

/* As DHCP leaves it on Google Cloud: a host address, and the gateway as the one neighbour. */
static void test_gateway_by_host_route(void) {
        static struct machine m;
        _cleanup_plan_ struct plan p = PLAN_NULL, two = PLAN_NULL, subnet = PLAN_NULL;
        struct route r;

        init(&m);
        add_address(&m, 2, "10.0.0.5", 32);
        add_address(&m, 3, "10.0.1.5", 32);
        r = main_route("0.0.0.0", 0, 2, "10.0.0.1");
        add_route(&m, &r);
        r = main_route("10.0.1.1", 32, 3, NULL);
        add_route(&m, &r);
        r = main_route("10.0.1.5", 32, 3, NULL); /* its own, which the kernel adds with IPv6 */
        add_route(&m, &r);
        ASSERT_OK(source_wanted(&m.intent, &m.found, &p));
        ASSERT_TRUE(has(&p, "table 847000003 default", "via 10.0.1.1 onlink"));
        ASSERT_TRUE(has(&p, "table 847000003 10.0.1.1/32", "link"));
        ASSERT_TRUE(has(&p, "from 10.0.1.5 lookup 847000003", "priority 28470"));
        ASSERT_TRUE(has(&p, "table 847000002 default", "via 10.0.0.1 onlink"));
        m.addresses[1].prefix_len = 24; /* a host route in a subnet is just that */
        ASSERT_OK(source_wanted(&m.intent, &m.found, &subnet));
        ASSERT_FALSE(has(&subnet, "table 847000003 default", "via 10.0.1.1 onlink"));
        m.addresses[1].prefix_len = 32;
        r = main_route("10.0.1.9", 32, 3, NULL);
        add_route(&m, &r);
        ASSERT_OK(source_wanted(&m.intent, &m.found, &two));
        ASSERT_FALSE(has(&two, "table 847000003 default", "via 10.0.1.1 onlink"));
}

static void test_routes_carry_metrics(void) {
        static struct machine m;
        _cleanup_plan_ struct plan p = PLAN_NULL;
        struct route r;

        init(&m);
        m.intent.rto_min = 5 * USEC_PER_MSEC;
        add_address(&m, 2, "fd00::5", 64);
        add_address(&m, 3, "fd00:1::5", 64);
        r = main_route("::", 0, 3, "fd00:1::1");
        r.metrics[RTAX_MTU] = 1400;
        r.locks = 1U << RTAX_MTU;
        r.locks |= 1U << RTAX_CC_ALGO | 1U << RTAX_CWND; /* cwnd has no value: its lock is nothing */
        (void) snprintf(r.congestion, sizeof(r.congestion), "bbr");
        r.nexthop = 12;
        r.expires = true; /* the copy follows it */
        add_route(&m, &r);
        ASSERT_OK(source_wanted(&m.intent, &m.found, &p));
        ASSERT_TRUE(has(&p, "table 847000003 default6",
                        "via fd00:1::1 onlink rto_min 5ms,lock mtu 1400,lock congctl bbr,lock"));
        for (size_t k = 0; k < p.n; k++)
                ASSERT_FALSE(p.ops[k].kind == OP_SOURCE_ROUTE && p.ops[k].route.nexthop != 0);
}

static void one_nic_is_left_alone(struct machine *m) {
        _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL;
        _cleanup_plan_ struct plan p = PLAN_NULL;

        ASSERT_OK(plan_add_source(&p, &m->intent, &m->found));
        ASSERT_EQ(p.n, 0);
        ASSERT_OK(plan_judge_source(&m->intent, &m->found, &l));
        ASSERT_EQ(l.n, 0);
}

static void judge(const struct machine *m, struct finding_list *l) {
        finding_list_clear(l);
        *l = FINDING_LIST_NULL;
        ASSERT_OK(plan_judge_source(&m->intent, &m->found, l));
}

static void test_findings(void) {
        static struct machine m;
        _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL;
        struct route r;

        init(&m);
        add_address(&m, 2, "10.0.0.5", 24);
        one_nic_is_left_alone(&m);
        add_address(&m, BRIDGE, "10.9.0.1", 24);
        add_address(&m, 3, "fd00::5", 64);
        one_nic_is_left_alone(&m); /* one of each family */
        add_address(&m, 3, "10.0.1.5", 24);
        r = main_route("0.0.0.0", 0, 2, "10.0.0.1");
        add_route(&m, &r);
        r = main_route("10.0.1.0", 24, 3, NULL);
        add_route(&m, &r);
        judge(&m, &l);
        ASSERT_EQ(l.n, 2);
        ASSERT_EQ(l.items[0].verdict, VERDICT_FAIL);
        ASSERT_STREQ(l.items[0].subject, "eth0");
        (void) converge(&m);
        judge(&m, &l);
        ASSERT_EQ(l.items[0].verdict, VERDICT_OK);
        ASSERT_STREQ(l.items[0].found, "table 847000002: rules 1, routes 1");
        ASSERT_EQ(l.items[1].verdict, VERDICT_WARN);
        ASSERT_TRUE(strstr(l.items[1].reason, "no IPv4 gateway by it is known") != NULL);
        add_rule(&m, &(struct rule){ .family = AF_INET, .src = { 10, 0 }, .src_len = 23, .priority = 9,
                                     .table = 7, .action = FR_ACT_TO_TBL });
        (void) converge(&m);
        judge(&m, &l);
        ASSERT_EQ(l.items[0].verdict, VERDICT_OK); /* where it leads is route.foreign's to say */
        ASSERT_STREQ(l.items[0].found, "left to rule 9: from 10.0.0.0/23 lookup 7");
        m.intent.source_routing = false;
        judge(&m, &l);
        ASSERT_EQ(l.n, 1); /* left behind */
        ASSERT_EQ(l.items[0].verdict, VERDICT_FAIL);
        (void) converge(&m);
        one_nic_is_left_alone(&m);
}

/* A table that lacks a throw would lead astray: where not all have room, none stays. */
static void test_more_than_are_handled(void) {
        static struct machine m;
        _cleanup_plan_ struct plan own = PLAN_NULL, p = PLAN_NULL;
        const size_t containers = SOURCE_MAX / 2;
        _cleanup_free_ struct route *all = calloc(ROOM + containers, sizeof(*all));
        struct route r;

        ASSERT_TRUE(all != NULL);
        init(&m);
        for (int k = 0; k < 2; k++) {
                char text[2][16];

                (void) snprintf(text[0], 16, "10.0.%d.5", k);
                (void) snprintf(text[1], 16, "10.0.%d.1", k);
                add_address(&m, 2 + k, text[0], 24);
                r = main_route("0.0.0.0", 0, 2 + k, text[1]);
                r.priority = (uint32_t) k;
                add_route(&m, &r);
        }
        (void) converge(&m);
        ASSERT_OK(source_found(&m.found.rules, &m.found.routes, &m.found.links, &own));
        ASSERT_TRUE(own.n > 0);
        memcpy(all, m.routes, m.found.routes.n * sizeof(*all));
        for (size_t k = 0; k < containers; k++) {
                r = main_route("172.17.0.0", 32, BRIDGE, NULL);
                r.dst[2] = (uint8_t) (k / 256);
                r.dst[3] = (uint8_t) (k % 256);
                all[m.found.routes.n++] = r;
        }
        m.found.routes.routes = all;
        ASSERT_OK(plan_add_source(&p, &m.intent, &m.found));
        ASSERT_EQ(p.n, own.n);
        for (size_t k = 0; k < p.n; k++)
                ASSERT_STREQ(p.ops[k].to, SOURCE_ABSENT);
}

static void test_unread_is_unknown(void) {
        static struct machine m;
        _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL;
        _cleanup_plan_ struct plan p = PLAN_NULL;

        init(&m);
        add_address(&m, 2, "10.0.0.5", 24);
        add_address(&m, 3, "10.0.1.5", 24);
        m.found.rules_error = -EACCES;
        ASSERT_OK(plan_add_source(&p, &m.intent, &m.found));
        ASSERT_EQ(p.n, 0);
        judge(&m, &l);
        ASSERT_EQ(l.n, 1);
        ASSERT_EQ(l.items[0].verdict, VERDICT_UNKNOWN);
}

static void test_texts(void) {
        struct rule rule = { .family = AF_INET6, .table = SOURCE_TABLE_BASE + INT32_MAX };
        char text[64];

        ASSERT_EQ(inet_pton(AF_INET6, "2001:db8:1111:2222:3333:4444:5555:6666", rule.src), 1);
        source_rule_subject(&rule, text);
        ASSERT_STREQ(text, LONG_RULE);
        rule.src_len = 128;
        rule.action = FR_ACT_TO_TBL;
        rule.protocol = SOURCE_PROTOCOL;
        ASSERT_TRUE(source_is_own_rule(&rule));
        rule.table = 2994483648; /* no such index */
        ASSERT_FALSE(source_is_own_rule(&rule));
}

/* Metrics that do not fit are left out whole, and the least retransmission time is never one of them. */
static void test_long_values(void) {
        struct route r = main_route("::", 0, INT32_MAX, "2001:db8:1111:2222:3333:4444:5555:6666");
        char text[96];

        r.table = SOURCE_TABLE_BASE + INT32_MAX;
        r.onlink = true;
        for (unsigned k = RTAX_LOCK + 1; k <= RTAX_MAX; k++)
                r.metrics[k] = UINT32_MAX;
        r.locks = UINT32_MAX;
        source_route_value(&r, text);
        ASSERT_STREQ(text, "via 2001:db8:1111:2222:3333:4444:5555:6666 onlink rto_min 4294967295ms,lock "
                           "mtu 4294967295,lock");
}

TEST_MAIN(test_properties, test_drift, test_removal, test_gateway_by_host_route, test_routes_carry_metrics,
          test_findings, test_more_than_are_handled, test_unread_is_unknown, test_texts, test_long_values)
