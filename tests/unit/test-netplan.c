/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <sys/socket.h>

#include "plan.h"
#include "source.h"
#include "test.h"

#define ROUNDS 5000
#define LINKS 6
#define ROUTES 5

/* The routes of the machine at random: on any link, or on several. */
static struct route routes[ROUTES];

/* What its NICs have at random. */
static struct found_nic_setting nic_settings[LINKS * INTENT_NIC_SETTINGS_MAX];

static uint32_t pick(uint32_t n);

static void random_routes(struct found *f) {
        f->routes = (struct route_table) { .routes = routes, .n = pick(ROUTES + 1) };
        for (size_t k = 0; k < f->routes.n; k++) {
                routes[k] = (struct route) { .family = AF_INET,
                                            .type = RTN_UNICAST,
                                            .dst = { 10, 0, (uint8_t) k },
                                            .dst_len = 24,
                                            .table = 254,
                                            .n_hops = pick(3),
                                            .hops = { (int) pick(LINKS + 2), (int) pick(LINKS + 2) },
                                            .rto_min_ms = pick(3) * 5,
                                            .rto_min_locked = pick(2),
                                            .expires = pick(5) == 0,
                                            .ambiguous = pick(5) == 0 };
                if (routes[k].rto_min_ms == 0)
                        routes[k].rto_min_locked = false;
        }
}

/* The settings of NICs at random: what each NIC has of each, or why it is not known. */
static void random_nic_settings(struct intent *i, struct found *f,
                                struct found_nic_setting items[LINKS * INTENT_NIC_SETTINGS_MAX]) {
        f->nic_settings = (struct found_nic_settings) { .items = items };
        i->n_nic_settings = pick(_NIC_SETTING_KIND_MAX + 1);
        for (size_t k = 0; k < i->n_nic_settings; k++) {
                struct intent_nic_setting *s = &i->nic_settings[k];

                /* One of each kind: their subjects differ. */
                *s = (struct intent_nic_setting) { .kind = (enum nic_setting_kind) k };
                (void) snprintf(s->name, sizeof(s->name), "s%zu", k);
                (void) snprintf(s->value, sizeof(s->value), "%u", pick(3));
        }
        for (size_t n = 0; n < f->links.n; n++)
                for (size_t k = 0; k < i->n_nic_settings; k++) {
                        struct found_nic_setting *s = &items[f->nic_settings.n];

                        if (!link_is_data_nic(&f->links.links[n]) || pick(4) == 0)
                                continue;
                        *s = (struct found_nic_setting) { .index = f->links.links[n].index,
                                                          .setting = k,
                                                          .error = pick(6) ? 0 : -EBADMSG,
                                                          .offer = pick(2) ? NIC_SETTABLE :
                                                                             pick(NIC_NOT_OF_KERNEL + 1) };
                        (void) snprintf(s->value, sizeof(s->value), "%u", pick(3));
                        f->nic_settings.n++;
                }
}

static size_t apply_nic_setting(const struct intent *i, struct found *f, const struct plan_op *op) {
        size_t hit = 0;

        for (size_t k = 0; k < f->nic_settings.n; k++) {
                struct found_nic_setting *s = &f->nic_settings.items[k];

                if (s->index != op->index || OP_NIC_SETTING + i->nic_settings[s->setting].kind != op->kind)
                        continue;
                ASSERT_EQ(s->error, 0);
                ASSERT_EQ(s->offer, NIC_SETTABLE); /* what cannot be set is never written */
                ASSERT_STREQ(s->value, op->from);
                finding_set(s->value, "%s", op->to);
                hit++;
        }
        return hit;
}

static void assert_nic_settings_reached(const struct intent *i, const struct found *f) {
        for (size_t k = 0; k < f->nic_settings.n; k++) {
                const struct found_nic_setting *s = &f->nic_settings.items[k];

                if (s->error == 0 && s->offer == NIC_SETTABLE)
                        ASSERT_STREQ(s->value, i->nic_settings[s->setting].value);
        }
}

static uint32_t pick(uint32_t n) {
        return (uint32_t) random() % n;
}

/* A machine and an intent at random; links is room for the machine's. */
static void random_case(struct intent *i, struct found *f, struct link links[LINKS]) {
        static const uint32_t mtus[] = { 0, 1300, 1460, 1500, 8896 },
                              maxima[] = { 0, 1500, 8896, 9000, 65535 };
        static const char *const kinds[] = { "", "veth", "bridge", "gretap" };
        static const char *const drivers[] = { "", "gve", "virtio_net" };

        *i = (struct intent) { .mtu = mtus[pick(5)], .network_mtu = mtus[pick(5)], .n_sysctls = pick(5) };
        *f = (struct found) { .links = { .links = links, .n = pick(LINKS + 1) } };
        i->rto_min = pick(3) ? pick(2) * 5 * USEC_PER_MSEC : 10 * USEC_PER_MSEC;
        random_routes(f);
        i->loose_rp_filter = pick(2);
        f->rp_filter_all = (struct found_rp_filter) { .error = pick(8) ? 0 : -EACCES, .value = pick(3) };
        for (size_t k = 0; k < LINKS; k++)
                f->rp_filters[k] =
                        (struct found_rp_filter){ .error = pick(8) ? 0 : -ENOENT, .value = pick(3) };
        for (size_t k = 0; k < i->n_sysctls; k++) {
                (void) snprintf(i->sysctls[k].name, sizeof(i->sysctls[k].name), "net.s%zu", k);
                (void) snprintf(i->sysctls[k].value, sizeof(i->sysctls[k].value), "%u", pick(3));
                (void) snprintf(f->sysctls[k].value, sizeof(f->sysctls[k].value), "%u", pick(3));
                f->sysctls[k].error = pick(6) == 0 ? -ENOENT : pick(6) == 0 ? -EROFS : 0;
        }
        for (size_t k = 0; k < f->links.n; k++) {
                links[k] = (struct link) { .index = (int) k + 1,
                                          .arp_type = pick(5) ? ARPHRD_ETHER : ARPHRD_LOOPBACK,
                                          .address_len = 6,
                                          .max_mtu = maxima[pick(5)],
                                          .min_mtu = 68,
                                          .peer_elsewhere = pick(2),
                                          .master = pick(4) == 0 };
                links[k].mtu =
                        links[k].max_mtu ? MIN(links[k].max_mtu, 1300 + pick(8000)) : 1300 + pick(8000);
                (void) snprintf(links[k].name, sizeof(links[k].name), "eth%c", (char) (48 + k));
                (void) snprintf(links[k].driver, sizeof(links[k].driver), "%s", drivers[pick(3)]);
                (void) snprintf(links[k].kind, sizeof(links[k].kind), "%s", kinds[pick(4)]);
        }
        random_nic_settings(i, f, nic_settings);
}

/* What the kernel would do with a write. */
static void apply(const struct intent *i, struct found *f, const struct plan_op *op) {
        size_t hit = 0;

        for (size_t k = 0; op->kind == OP_SYSCTL && k < i->n_sysctls; k++)
                if (streq(i->sysctls[k].name, op->subject)) {
                        ASSERT_STREQ(f->sysctls[k].value, op->from);
                        (void) snprintf(f->sysctls[k].value, sizeof(f->sysctls[k].value), "%s", op->to);
                        hit++;
                }
        for (size_t k = 0; op->kind == OP_SYSCTL && k < f->links.n; k++) {
                char name[64];

                rp_filter_name(f->links.links[k].name, name);
                if (!streq(name, op->subject))
                        continue;
                ASSERT_EQ(f->rp_filters[k].value, atoi(op->from));
                f->rp_filters[k].value = (unsigned) atoi(op->to);
                hit++;
        }
        for (size_t k = 0; op->kind == OP_MTU && k < f->links.n; k++)
                if (f->links.links[k].index == op->index) {
                        ASSERT_EQ(f->links.links[k].mtu, atoi(op->from));
                        f->links.links[k].mtu = (uint32_t) atoi(op->to);
                        hit++;
                }
        for (size_t k = 0; op->kind == OP_ROUTE && k < f->routes.n; k++) {
                char subject[64], value[ROUTE_VALUE_MAX];

                route_subject(&routes[k], &f->links, subject);
                if (!streq(subject, op->subject))
                        continue;
                route_value(&routes[k], value);
                ASSERT_STREQ(value, op->from);
                ASSERT_TRUE(route_parse_value(op->to, &routes[k].rto_min_ms, &routes[k].rto_min_locked));
                hit++;
        }
        if (op->kind >= OP_NIC_SETTING)
                hit = apply_nic_setting(i, f, op);
        ASSERT_EQ(hit, 1);
}

/* Holds after every single write, so that one may stop anywhere: nothing was raised past what NIC and
 * network carry, strangers are as they were. */
static void assert_safe(const struct intent *i, const struct found *f, const struct link before[LINKS]) {
        for (size_t k = 0; k < f->links.n; k++) {
                const struct link *l = &f->links.links[k];

                if (l->mtu == before[k].mtu)
                        continue;
                ASSERT_TRUE(link_is_data_nic(l));
                if (i->network_mtu > 0)
                        ASSERT_TRUE(l->mtu <= i->network_mtu);
                else
                        ASSERT_TRUE(l->mtu > before[k].mtu && l->mtu <= link_stated_mtu(l));
                ASSERT_TRUE(l->mtu <= i->mtu);
                ASSERT_TRUE(l->max_mtu == 0 || l->mtu <= l->max_mtu);
                ASSERT_TRUE(l->mtu >= INTENT_MTU_MIN);
        }
}

static void assert_reached(const struct intent *i, const struct found *f) {
        size_t nics = 0;

        assert_nic_settings_reached(i, f);

        for (size_t k = 0; k < f->links.n; k++)
                nics += link_is_data_nic(&f->links.links[k]);
        for (size_t k = 0; i->loose_rp_filter && nics > 1 && k < f->links.n; k++)
                if (link_is_data_nic(&f->links.links[k]) && f->rp_filter_all.error == 0 &&
                    f->rp_filters[k].error == 0)
                        ASSERT_TRUE(MAX(f->rp_filter_all.value, f->rp_filters[k].value) != 1);
        for (size_t k = 0; i->rto_min > 0 && k < f->routes.n; k++)
                if (source_is_data_route(i, &f->links, &routes[k]) && !routes[k].expires &&
                    !routes[k].ambiguous) {
                        ASSERT_EQ(routes[k].rto_min_ms * USEC_PER_MSEC, i->rto_min);
                        ASSERT_TRUE(routes[k].rto_min_locked);
                }
        for (size_t k = 0; k < i->n_sysctls; k++)
                if (f->sysctls[k].error == 0)
                        ASSERT_STREQ(f->sysctls[k].value, i->sysctls[k].value);
        for (size_t k = 0; k < f->links.n; k++) {
                const struct link *l = &f->links.links[k];

                if (link_is_data_nic(l) && i->mtu > 0 && i->network_mtu > 0)
                        ASSERT_EQ(l->mtu,
                                  MIN(MIN(i->mtu, i->network_mtu), l->max_mtu ? l->max_mtu : UINT32_MAX));
        }
}

/* Routes that are not ours, or cannot be changed without loss, stay. */
static void assert_routes_safe(const struct intent *i, const struct found *f,
                               const struct route before[ROUTES]) {
        for (size_t k = 0; k < f->routes.n; k++) {
                if (memcmp(&routes[k], &before[k], sizeof(routes[k])) == 0)
                        continue;
                ASSERT_TRUE(i->rto_min > 0 && !before[k].expires && !before[k].ambiguous);
                for (unsigned n = 0; n < routes[k].n_hops; n++) {
                        size_t at = (size_t) routes[k].hops[n] - 1;

                        ASSERT_TRUE(at < f->links.n && link_is_data_nic(&f->links.links[at]));
                }
        }
}

static void test_properties(void) {
        struct link links[LINKS], before[LINKS];
        struct route routes_before[ROUTES];
        struct intent i;
        struct found f;
        size_t writes = 0;

        srandom(test_seed());
        for (int round = 0; round < ROUNDS; round++) {
                _cleanup_plan_ struct plan p = PLAN_NULL, again = PLAN_NULL;

                random_case(&i, &f, links);
                memcpy(before, links, sizeof(before));
                memcpy(routes_before, routes, sizeof(routes_before));
                ASSERT_OK(plan_make(&i, &f, &p));
                for (size_t k = 0; k < p.n; k++) {
                        apply(&i, &f, &p.ops[k]);
                        assert_safe(&i, &f, before);
                        assert_routes_safe(&i, &f, routes_before);
                }
                assert_reached(&i, &f);
                ASSERT_OK(plan_make(&i, &f, &again));
                ASSERT_EQ(again.n, 0);
                writes += p.n;
        }
        ASSERT_TRUE(writes > ROUNDS); /* the cases were not empty ones */
}

/* A plan that stopped half-way is taken up by the next one, and findings are wrong exactly for what is still
 * to do. */
static void test_half_a_plan(void) {
        struct link links[LINKS];
        struct intent i;
        struct found f;

        srandom(test_seed());
        for (int round = 0; round < ROUNDS; round++) {
                _cleanup_plan_ struct plan p = PLAN_NULL, rest = PLAN_NULL;
                size_t stop;

                random_case(&i, &f, links);
                ASSERT_OK(plan_make(&i, &f, &p));
                stop = pick((uint32_t) p.n + 1);
                for (size_t k = 0; k < stop; k++)
                        apply(&i, &f, &p.ops[k]);
                ASSERT_OK(plan_make(&i, &f, &rest));
                ASSERT_EQ(rest.n, p.n - stop);
                for (size_t k = 0; k < rest.n; k++)
                        ASSERT_STREQ(rest.ops[k].subject, p.ops[stop + k].subject);
        }
}

static void test_findings(void) {
        struct link links[] = { { .index = 2,
                                  .name = "eth0",
                                  .arp_type = ARPHRD_ETHER,
                                  .address_len = 6,
                                  .mtu = 1460,
                                  .max_mtu = 9000 } };
        struct intent i = { .profile = "v6e", .mtu = 8896, .network_mtu = 8896, .n_sysctls = 1 };
        struct found f = { .links = { links, 1 } };
        _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL, none = FINDING_LIST_NULL;

        (void) snprintf(i.sysctls[0].name, sizeof(i.sysctls[0].name), "net.x");
        f.sysctls[0].error = -ENOENT;
        ASSERT_OK(plan_findings(&i, &f, &l));
        ASSERT_EQ(l.n, 5); /* the last two are others' (foreign.h) */
        ASSERT_EQ(l.items[0].verdict, VERDICT_OK); /* the profile */
        ASSERT_EQ(l.items[1].verdict, VERDICT_UNKNOWN);
        ASSERT_EQ(l.items[2].verdict, VERDICT_FAIL);

        i.n_sysctls = 0;
        f.links.n = 0;
        f.links_error = -ENODATA;
        (void) snprintf(i.profile_note, sizeof(i.profile_note), "the accelerator type is not known");
        ASSERT_OK(plan_findings(&i, &f, &none));
        ASSERT_EQ(none.n, 2);
        ASSERT_EQ(none.items[0].verdict, VERDICT_WARN);
        ASSERT_EQ(none.items[1].verdict, VERDICT_UNKNOWN);
        ASSERT_TRUE(strstr(none.items[1].reason, "cannot be read") != NULL);
}

/* Each finding of a NIC's setting has check and subject of the write it asks for: so a contest is told. */
static void test_nic_settings(void) {
        struct link l = { .index = 2, .name = "eth0", .arp_type = ARPHRD_ETHER, .address_len = 6,
                          .mtu = 8896 };
        struct intent i = { .nic_settings = { { NIC_FEATURE, "tx-nocache-copy", "", "on", "test" },
                                              { NIC_PRIVATE_FLAG, "a-flag", "", "on", "test" },
                                              { NIC_PRIVATE_FLAG, "another", "", "on", "test" } },
                            .n_nic_settings = 3 };
        struct found_nic_setting items[] = {
                { .index = 2, .value = "off" },
                { .index = 2, .setting = 1, .offer = NIC_NOT_OF_DRIVER },
                { .index = 2, .setting = 2, .value = "off" },
                { .index = 7, .value = "off" }, /* gone since */
        };
        struct found f = { .links = { &l, 1 }, .nic_settings = { items, ELEMENTSOF(items) } };
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL, unread = FINDING_LIST_NULL;
        _cleanup_plan_ struct plan p = PLAN_NULL;

        ASSERT_OK(plan_make(&i, &f, &p));
        ASSERT_OK(plan_judge_nic_settings(&i, &f, &list));
        ASSERT_EQ(p.n, 2);
        ASSERT_EQ(list.n, 3);
        for (size_t k = 0; k < p.n; k++) {
                ASSERT_STREQ(op_check(p.ops[k].kind), list.items[2 * k].check);
                ASSERT_STREQ(p.ops[k].subject, list.items[2 * k].subject);
                ASSERT_EQ(list.items[2 * k].verdict, VERDICT_FAIL);
        }
        ASSERT_STREQ(op_bit_name(p.ops[0].subject), "tx-nocache-copy");
        ASSERT_STREQ(op_bit_name(p.ops[1].subject), "another");
        ASSERT_EQ(list.items[1].verdict, VERDICT_OK);
        f.nic_settings_error = -ENOMEM;
        ASSERT_OK(plan_judge_nic_settings(&i, &f, &unread));
        ASSERT_EQ(unread.items[0].verdict, VERDICT_UNKNOWN);
}

static void test_rp_filters(void) {
        struct link l[] = { { .index = 2, .name = "eth0", .arp_type = ARPHRD_ETHER, .address_len = 6 },
                            { .index = 3, .name = "eth1", .arp_type = ARPHRD_ETHER, .address_len = 6 } };
        struct intent i = { .profile = "v6e" };
        struct found f = { .links = { l, 2 }, .rp_filter_all = { .value = 1 } };
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL;
        _cleanup_plan_ struct plan p = PLAN_NULL;

        f.rp_filters[1].value = 2;
        ASSERT_OK(plan_judge_rp_filters(&i, &f, &list));
        ASSERT_EQ(list.n, 2);
        ASSERT_EQ(list.items[0].verdict, VERDICT_WARN);
        ASSERT_TRUE(strstr(list.items[0].remedy, "sudo sysctl -w net.ipv4.conf.eth0.rp_filter=2") != NULL);
        ASSERT_EQ(list.items[1].verdict, VERDICT_OK);
        ASSERT_OK(plan_add_rp_filters(&p, &i, &f));
        ASSERT_EQ(p.n, 0); /* the profile does not ask */
        i.loose_rp_filter = true;
        f.links.n = 1;
        ASSERT_OK(plan_add_rp_filters(&p, &i, &f));
        ASSERT_EQ(p.n, 0); /* one NIC: strict is right */
        f.links.n = 2;
        ASSERT_OK(plan_add_rp_filters(&p, &i, &f));
        ASSERT_EQ(p.n, 1);
        ASSERT_STREQ(p.ops[0].subject, "net.ipv4.conf.eth0.rp_filter");
        ASSERT_STREQ(p.ops[0].from, "0");
}

static void test_route_values(void) {
        static const char *const bad[] = { "",     "5",         "ms",    "0ms",           "-5ms",
                                           "5ms,", "5ms,lock ", "none ", "99999999999ms", "5s" };
        struct route r = { .family = AF_INET };
        struct link l = { .index = 2, .name = "eth0" };
        const struct link_table t = { &l, 1 };
        char text[64], value[ROUTE_VALUE_MAX];
        uint32_t ms;
        bool lock;

        for (size_t k = 0; k < ELEMENTSOF(bad); k++)
                ASSERT_FALSE(route_parse_value(bad[k], &ms, &lock));
        for (unsigned n = 0; n < 3; n++) {
                r.rto_min_ms = n * 5;
                r.rto_min_locked = n == 2;
                route_value(&r, value);
                ASSERT_TRUE(route_parse_value(value, &ms, &lock));
                ASSERT_EQ(ms, n * 5);
                ASSERT_EQ(lock, n == 2);
        }
        r = (struct route) { .family = AF_INET, .table = 254, .n_hops = 1, .hops = { 2 } };
        route_subject(&r, &t, text);
        ASSERT_STREQ(text, "default dev eth0");
        r = (struct route) { .family = AF_INET6, .dst = { 0xfd }, .dst_len = 64, .table = 100, .n_hops = 1,
                            .hops = { 2 }, .priority = 256, .tos = 8 };
        route_subject(&r, &t, text);
        ASSERT_STREQ(text, "fd00::/64 dev eth0 table 100 tos 8 metric 256");
}

static void test_route_findings(void) {
        struct link l = {
                .index = 2, .name = "eth0", .arp_type = ARPHRD_ETHER, .address_len = 6, .mtu = 8896
        };
        struct route r[] = {
                { .family = AF_INET,
                  .type = RTN_UNICAST,
                  .table = 254,
                  .n_hops = 1,
                  .hops = { 2 },
                  .rto_min_ms = 5,
                  .rto_min_locked = true },
                { .family = AF_INET,
                  .type = RTN_UNICAST,
                  .dst_len = 8,
                  .table = 254,
                  .n_hops = 1,
                  .hops = { 2 },
                  .rto_min_ms = 5 },
                { .family = AF_INET6, .type = RTN_UNICAST, .table = 254, .n_hops = 1, .hops = { 2 },
                  .expires = true },
        };
        struct intent i = { .profile = "v6e", .rto_min = 5000 };
        struct found f = { .links = { &l, 1 }, .routes = { .routes = r, .n = 3 } };
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL, unread = FINDING_LIST_NULL;

        ASSERT_OK(plan_findings(&i, &f, &list));
        ASSERT_EQ(list.n, 7); /* the last two are others' (foreign.h) */
        ASSERT_EQ(list.items[2].verdict, VERDICT_FAIL); /* without the lock it is not heeded */
        ASSERT_EQ(list.items[3].verdict, VERDICT_WARN);
        ASSERT_TRUE(strstr(list.items[3].reason, "router advertisements") != NULL);
        ASSERT_EQ(list.items[4].verdict, VERDICT_OK);
        ASSERT_STREQ(list.items[4].found, "right on 1 data-centre routes");
        f.routes.n = 0;
        f.routes_error = -ENODATA;
        ASSERT_OK(plan_findings(&i, &f, &unread));
        ASSERT_EQ(unread.items[unread.n - 1].verdict, VERDICT_UNKNOWN);
}

TEST_MAIN(test_nic_settings, test_rp_filters, test_route_values, test_route_findings, test_properties,
          test_half_a_plan,
          test_findings)
