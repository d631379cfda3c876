/* SPDX-License-Identifier: Apache-2.0 */
/* Routes and rules of others: which of them take the run's traffic, and which are bystanders. */
#include "foreign.h"
#include "main_rule.h"
#include "netsource-machine.h"
#include "plan.h"

#define WG 70 /* a device that is no NIC */

static struct machine m;

static struct rule rule_to(uint32_t priority, uint32_t table) {
        return (struct rule) { .family = AF_INET, .table = table, .priority = priority,
                               .action = FR_ACT_TO_TBL };
}

/* By priority, as the kernel dumps them. */
static struct rule *insert_rule(const struct rule *r) {
        size_t at = m.found.rules.n;

        add_rule(&m, r);
        for (; at > 0 && m.rules[at - 1].priority > r->priority; at--)
                m.rules[at] = m.rules[at - 1];
        m.rules[at] = *r;
        return &m.rules[at];
}

static struct route *add_to(const char *dst, uint8_t len, int index, const char *gateway) {
        struct route r = main_route(dst, len, index, gateway);

        add_route(&m, &r);
        return &m.routes[m.found.routes.n - 1];
}

/* nics: one or two, each with a subnet and a default route; ours in place. */
static void begin_host(int nics) {
        _cleanup_plan_ struct plan p = PLAN_NULL;
        struct rule r = rule_to(0, RT_TABLE_LOCAL);

        init(&m);
        m.found.links.n = (size_t) nics;
        (void) insert_rule(&r);
        r = rule_to(MAIN_RULE_PRIORITY, RT_TABLE_MAIN);
        (void) insert_rule(&r);
        r = rule_to(DEFAULT_RULE_PRIORITY, RT_TABLE_DEFAULT);
        (void) insert_rule(&r);
        for (int k = 0; k < nics; k++) {
                char text[3][16];

                (void) snprintf(text[0], 16, "10.0.%d.5", k);
                (void) snprintf(text[1], 16, "10.0.%d.0", k);
                (void) snprintf(text[2], 16, "10.0.%d.1", k);
                add_address(&m, 2 + k, text[0], 24);
                (void) add_to(text[1], 24, 2 + k, NULL);
                add_to("0.0.0.0", 0, 2 + k, text[2])->priority = 100 + (uint32_t) k;
        }
        ASSERT_OK(plan_add_source(&p, &m.intent, &m.found));
        for (size_t k = 0; k < p.n; k++)
                if (p.ops[k].kind == OP_RULE)
                        (void) insert_rule(&p.ops[k].rule);
                else
                        apply(&m, &p.ops[k]);
}

/* The one finding. */
static struct finding judged(void) {
        _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL;

        ASSERT_OK(plan_judge_foreign(&m.intent, &m.found, &l));
        ASSERT_EQ(l.n, 1);
        return l.items[0];
}

#define ASSERT_ALARM(v, nic, says, mends)                                                                   \
        do {                                                                                                \
                struct finding alarm_ = judged();                                                           \
                ASSERT_EQ(alarm_.verdict, (v));                                                             \
                ASSERT_STREQ(alarm_.subject, (nic));                                                        \
                ASSERT_STREQ(alarm_.found, (says));                                                         \
                ASSERT_STREQ(alarm_.remedy, (mends));                                                       \
        } while (0)

static void part_of_a_subnet(void) {
        begin_host(2);
        ASSERT_EQ(judged().verdict, VERDICT_OK);
        add_to("10.0.1.0", 25, 2, NULL)->protocol = RTPROT_BOOT;
        ASSERT_ALARM(VERDICT_FAIL, "eth1",
                     "unicast route to 10.0.1.0/25 by eth0 from table main, protocol boot",
                     "sudo ip -4 route del 10.0.1.0/25 dev eth0");
        ASSERT_TRUE(strstr(judged().reason, "ip(8), typed by a person or a script") != NULL);
        m.routes[m.found.routes.n - 1].type = RTN_BLACKHOLE;
        m.routes[m.found.routes.n - 1].n_hops = 0;
        ASSERT_ALARM(VERDICT_FAIL, "eth1", "blackhole route to 10.0.1.0/25 from table main, protocol boot",
                     "sudo ip -4 route del blackhole 10.0.1.0/25");
}

/* In place of the kernel's own, whose deletion alone would leave none. */
static void the_whole_subnet(void) {
        _cleanup_plan_ struct plan p = PLAN_NULL;

        begin_host(2);
        for (size_t k = 0; k < m.found.routes.n; k++)
                if (m.routes[k].table == RT_TABLE_MAIN && m.routes[k].dst_len == 24 &&
                    m.routes[k].hops[0] == 3) {
                        m.routes[k].hops[0] = 2;
                        m.routes[k].protocol = RTPROT_STATIC;
                }
        ASSERT_ALARM(VERDICT_FAIL, "eth1",
                     "unicast route to 10.0.1.0/24 by eth0 from table main, protocol static",
                     "sudo ip -4 route replace 10.0.1.0/24 dev eth1 proto kernel scope link src 10.0.1.5");
        ASSERT_OK(plan_add_source(&p, &m.intent, &m.found));
        ASSERT_EQ(p.n, 0); /* nothing of eth1's table goes, and nothing of this gets into eth0's */
        for (size_t k = m.found.routes.n; k-- > 0;) /* it was deleted instead */
                if (m.routes[k].protocol == RTPROT_STATIC)
                        m.routes[k] = m.routes[--m.found.routes.n];
        ASSERT_ALARM(VERDICT_FAIL, "eth1",
                     "unicast default route by eth0 via 10.0.0.1 from table main, protocol kernel, "
                     "metric 100",
                     "sudo ip -4 route replace 10.0.1.0/24 dev eth1 proto kernel scope link src 10.0.1.5");
}

static void a_link_that_is_down_is_another_matter(void) {
        begin_host(2);
        (void) add_to("10.0.1.0", 25, 2, NULL);
        m.links[1].carrier = false;
        ASSERT_EQ(judged().verdict, VERDICT_OK);
}

/* A bridge of docker's, a tunnel, one container's host route, a routing daemon's copy by the right NIC. */
static void bystanders(void) {
        begin_host(2);
        (void) add_to("172.17.0.0", 16, BRIDGE, NULL);
        (void) add_to("10.0.0.0", 8, WG, NULL);
        (void) add_to("10.0.1.77", 32, BRIDGE, NULL);
        (void) add_to("10.0.1.0", 25, 3, "10.0.1.1");
        add_to("10.0.1.0", 24, 2, NULL)->priority = 900; /* the kernel's own comes first */
        ASSERT_EQ(judged().verdict, VERDICT_OK);
}

static void rules_that_end_alike(void) {
        struct rule r = rule_to(500, 77);

        begin_host(2);
        r.src_len = 32;
        memcpy(r.src, m.addresses[1].bytes, sizeof(r.src));
        (void) insert_rule(&r); /* for eth1's address, to a table that leads out by eth1 */
        add_to("0.0.0.0", 0, 3, "10.0.1.1")->table = 77;
        r = rule_to(600, 78); /* for all, to a table that knows another network */
        (void) insert_rule(&r);
        add_to("192.168.0.0", 16, WG, NULL)->table = 78;
        r = rule_to(700, 79); /* for marked packets, to nowhere */
        r.fit = RULE_NO_FIT;
        r.action = FR_ACT_UNREACHABLE;
        (void) insert_rule(&r);
        r = rule_to(800, RT_TABLE_MAIN); /* by user, to where all goes */
        r.fit = RULE_MAY_FIT;
        (void) insert_rule(&r);
        ASSERT_EQ(judged().verdict, VERDICT_OK);
}

static void rules_that_lead_elsewhere(void) {
        struct rule r = rule_to(500, 77), *mine;

        begin_host(2);
        r.src_len = 32;
        r.protocol = RTPROT_STATIC;
        memcpy(r.src, m.addresses[1].bytes, sizeof(r.src));
        (void) insert_rule(&r);
        add_to("0.0.0.0", 0, 2, "10.0.0.1")->table = 77;
        ASSERT_ALARM(VERDICT_FAIL, "eth1", "rule 500: from 10.0.1.5/32 lookup 77, protocol static",
                     "sudo ip -4 rule del priority 500 from 10.0.1.5/32 table 77");
        begin_host(2);
        r = rule_to(500, 77); /* some user's */
        r.fit = RULE_MAY_FIT;
        mine = insert_rule(&r);
        add_to("10.0.1.0", 24, WG, NULL)->table = 77;
        ASSERT_ALARM(VERDICT_WARN, "eth1", "rule 500: from all lookup 77",
                     "sudo ip -4 rule del priority 500 table 77");
        mine->fit = RULE_FITS; /* all: then it is the route that is one too many */
        ASSERT_ALARM(VERDICT_FAIL, "eth1",
                     "unicast route to 10.0.1.0/24 from table 77, protocol kernel",
                     "sudo ip -4 route del 10.0.1.0/24 table 77 metric 0");
        mine->action = FR_ACT_BLACKHOLE;
        mine->dst_len = 24;
        memcpy(mine->dst, (const uint8_t[16]){ 10, 0, 1 }, 16);
        ASSERT_ALARM(VERDICT_FAIL, "eth1", "rule 500: to 10.0.1.0/24 blackhole",
                     "sudo ip -4 rule del priority 500 to 10.0.1.0/24");
        mine->inverted = true;
        mine->action = FR_ACT_TO_TBL;
        mine->table = RT_TABLE_MAIN;
        ASSERT_EQ(judged().verdict, VERDICT_OK);
}

/* wg-quick: all but its own marked packets, and of the main table no default route. */
static void a_tunnel_for_everything(void) {
        struct rule r = rule_to(32764, RT_TABLE_MAIN), *main_rule;

        begin_host(1);
        r.suppressed = 1;
        r.narrow = true;
        main_rule = insert_rule(&r);
        r = rule_to(32765, 51820);
        r.inverted = true;
        r.fit = RULE_NO_FIT;
        (void) insert_rule(&r);
        add_to("0.0.0.0", 0, WG, NULL)->table = 51820;
        ASSERT_ALARM(VERDICT_WARN, "eth0", "rule 32765: not from all lookup 51820",
                     "sudo ip -4 rule del priority 32765 not table 51820");
        main_rule->suppressed = 0; /* without it nothing gets there */
        ASSERT_EQ(judged().verdict, VERDICT_OK);
        begin_host(1);
        add_to("0.0.0.0", 0, 2, "10.0.0.9")->priority = 50;
        ASSERT_EQ(judged().verdict, VERDICT_OK); /* by the NIC is all that is asked */
        add_to("0.0.0.0", 0, BRIDGE, "172.17.0.9")->protocol = RTPROT_DHCP;
        m.found.links.n = 1;
        ASSERT_EQ(judged().verdict, VERDICT_WARN);
        ASSERT_TRUE(strstr(judged().reason, "a DHCP client") != NULL);
}

static void goto_leads_on(void) {
        struct rule r = rule_to(100, 0);

        begin_host(2);
        r.action = FR_ACT_GOTO;
        r.target = 20000;
        (void) insert_rule(&r);
        r = rule_to(200, 0);
        r.action = FR_ACT_UNREACHABLE;
        (void) insert_rule(&r);
        ASSERT_EQ(judged().verdict, VERDICT_FAIL); /* its target is not there */
        r = rule_to(20000, 79);
        (void) insert_rule(&r);
        ASSERT_EQ(judged().verdict, VERDICT_OK);
}

static void the_kernels_own_rules(void) {
        _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL;
        _cleanup_plan_ struct plan p = PLAN_NULL, without = PLAN_NULL, alone = PLAN_NULL;

        begin_host(1);
        ASSERT_OK(plan_add_main_rules(&p, &m.intent, &m.found));
        ASSERT_EQ(p.n, 0);
        m.rules[1] = m.rules[2]; /* the last is still there, and cannot be added again */
        m.found.rules.n = 2;
        ASSERT_OK(plan_add_main_rules(&alone, &m.intent, &m.found));
        ASSERT_EQ(alone.n, 1);
        ASSERT_STREQ(alone.ops[0].subject, "IPv4 lookup main");
        m.found.rules.n = 1; /* ip rule flush leaves the first */
        ASSERT_OK(plan_add_main_rules(&p, &m.intent, &m.found));
        ASSERT_EQ(p.n, 2);
        ASSERT_STREQ(p.ops[0].subject, "IPv4 lookup default");
        ASSERT_STREQ(p.ops[1].subject, "IPv4 lookup main");
        ASSERT_STREQ(p.ops[1].to, "priority 32766");
        ASSERT_OK(plan_judge_main_rules(&m.intent, &m.found, &l));
        ASSERT_EQ(l.n, 1);
        ASSERT_STREQ(l.items[0].remedy, "sudo ip -4 rule add lookup main priority 32766");
        ASSERT_OK(plan_judge_foreign(&m.intent, &m.found, &l));
        ASSERT_EQ(l.n, 2); /* and nothing is blamed besides */
        (void) insert_rule(&p.ops[1].rule);
        ASSERT_OK(plan_add_main_rules(&without, &m.intent, &m.found));
        ASSERT_EQ(without.n, 0);
}

static void narrow_routes(void) {
        _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL;
        struct route *r;

        begin_host(1);
        m.links[0].mtu = 8896;
        r = add_to("10.0.0.9", 32, 2, NULL);
        r->metrics[RTAX_MTU] = 1400;
        r->locks = 1U << RTAX_MTU;
        r->protocol = RTPROT_BOOT;
        r = add_to("169.254.169.254", 32, 2, "10.0.0.1");
        r->metrics[RTAX_MTU] = 1460;
        r = add_to("10.7.0.0", 16, 2, "10.0.0.1");
        r->metrics[RTAX_ADVMSS] = 8855;
        r->protocol = RTPROT_DHCP;
        r = add_to("10.8.0.0", 16, 2, "10.0.0.1");
        r->metrics[RTAX_MTU] = 8896;
        r->metrics[RTAX_ADVMSS] = 8856;
        ASSERT_OK(plan_judge_route_mtus(&m.intent, &m.found, &l));
        ASSERT_EQ(l.n, 2);
        ASSERT_STREQ(l.items[0].subject, "10.0.0.9/32 dev eth0");
        ASSERT_STREQ(l.items[0].remedy, "sudo ip -4 route replace 10.0.0.9/32 dev eth0");
        ASSERT_STREQ(l.items[1].subject, "10.7.0.0/16 dev eth0");
        ASSERT_TRUE(strstr(l.items[1].reason, "a DHCP client") != NULL);
        ASSERT_STREQ(l.items[1].remedy,
                     "sudo ip -4 route replace 10.7.0.0/16 via 10.0.0.1 dev eth0 proto dhcp");
}

/* Packets to peers of the subnet that are wrapped do not reach them; those to elsewhere are a site's own. */
static void wrapped_packets(void) {
        struct route *r;

        begin_host(2);
        r = add_to("10.9.0.0", 16, 3, "10.0.1.1");
        r->special = r->wraps = true;
        ASSERT_EQ(judged().verdict, VERDICT_OK);
        r = add_to("10.0.1.77", 32, 3, NULL);
        r->protocol = RTPROT_STATIC;
        r->special = true; /* of IPv6, for one source only: not known whether it is the run's */
        ASSERT_EQ(judged().verdict, VERDICT_OK);
        r->wraps = true;
        ASSERT_ALARM(VERDICT_FAIL, "eth1",
                     "unicast route to 10.0.1.77/32 by eth1 from table main, protocol static, encapsulated",
                     "sudo ip -4 route del 10.0.1.77/32 table 254 metric 0");
}

/* The address is a /32, as Google Cloud gives it: a VPN that takes 10.0.0.0/8 takes the peers, too. */
static void around_an_address_without_subnet(void) {
        struct route *r;

        begin_host(1);
        m.addresses[0].prefix_len = 32;
        for (size_t k = m.found.routes.n; k-- > 0;) /* the kernel makes none then */
                if (m.routes[k].dst_len == 24)
                        m.routes[k] = m.routes[--m.found.routes.n];
        (void) add_to("10.0.0.1", 32, 2, NULL);
        (void) add_to("10.4.0.0", 14, BRIDGE, NULL);
        ASSERT_EQ(judged().verdict, VERDICT_OK);
        r = add_to("10.0.0.0", 8, WG, NULL);
        r->protocol = RTPROT_STATIC;
        (void) add_to("10.0.0.0", 20, 2, "10.0.0.1"); /* by the NIC, and longer */
        ASSERT_EQ(judged().verdict, VERDICT_OK);
        m.found.routes.n--;
        ASSERT_ALARM(VERDICT_FAIL, "eth0", "unicast route to 10.0.0.0/8 from table main, protocol static",
                     "sudo ip -4 route del 10.0.0.0/8 table 254 metric 0");
        r->type = RTN_UNREACHABLE;
        ASSERT_ALARM(VERDICT_FAIL, "eth0",
                     "unreachable route to 10.0.0.0/8 from table main, protocol static",
                     "sudo ip -4 route del unreachable 10.0.0.0/8 proto static");
        r->type = RTN_THROW;
        ASSERT_EQ(judged().verdict, VERDICT_OK);
}

/* What makes a route slow is an alarm, and its other settings stay; those alone are named. */
static void tuned_routes(void) {
        _cleanup_finding_list_ struct finding_list calm = FINDING_LIST_NULL, alarm = FINDING_LIST_NULL;
        struct route *r;

        begin_host(1);
        m.links[0].mtu = 8896;
        add_to("169.254.169.254", 32, 2, "10.0.0.1")->metrics[RTAX_HOPLIMIT] = 1;
        r = add_to("10.7.0.0", 16, 2, "10.0.0.1");
        r->metrics[RTAX_INITCWND] = 40;
        (void) snprintf(r->congestion, sizeof(r->congestion), "bbr");
        add_to("10.8.0.0", 16, 2, "10.0.0.1")->metrics[RTAX_QUICKACK] = 1;
        ASSERT_OK(plan_judge_route_mtus(&m.intent, &m.found, &calm));
        ASSERT_EQ(calm.n, 1);
        ASSERT_EQ(calm.items[0].verdict, VERDICT_OK);
        ASSERT_STREQ(calm.items[0].found, "no route carries less than its NIC; 10.7.0.0/16 dev eth0 has "
                                          "initcwnd 40, congctl bbr (and 1 more)");
        r->metrics[RTAX_HOPLIMIT] = 1;
        ASSERT_OK(plan_judge_route_mtus(&m.intent, &m.found, &alarm));
        ASSERT_EQ(alarm.n, 1);
        ASSERT_EQ(alarm.items[0].verdict, VERDICT_WARN);
        ASSERT_TRUE(strstr(alarm.items[0].found, "hoplimit 1, initcwnd 40, congctl bbr") != NULL);
        ASSERT_STREQ(alarm.items[0].remedy, "sudo ip -4 route replace 10.7.0.0/16 via 10.0.0.1 dev eth0 "
                                            "proto kernel initcwnd 40 congctl bbr");
}

static void a_route_that_yields(void) {
        _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL;
        struct route *r;

        begin_host(1);
        m.links[0].mtu = 8896;
        r = add_to("10.7.0.0", 16, 2, "10.0.0.1");
        (void) snprintf(r->congestion, sizeof(r->congestion), "lp");
        ASSERT_OK(plan_judge_route_mtus(&m.intent, &m.found, &l));
        ASSERT_EQ(l.items[0].verdict, VERDICT_WARN);
        ASSERT_TRUE(strstr(l.items[0].found, "congctl lp") != NULL);
        ASSERT_STREQ(l.items[0].remedy, "sudo ip -4 route replace 10.7.0.0/16 via 10.0.0.1 dev eth0 proto "
                                        "kernel");
}

TEST_MAIN(part_of_a_subnet, the_whole_subnet, a_link_that_is_down_is_another_matter, bystanders,
          rules_that_end_alike, rules_that_lead_elsewhere, a_tunnel_for_everything, goto_leads_on,
          the_kernels_own_rules, narrow_routes, a_route_that_yields, wrapped_packets,
          around_an_address_without_subnet, tuned_routes)
