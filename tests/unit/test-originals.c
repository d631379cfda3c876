/* SPDX-License-Identifier: Apache-2.0 */
/* The values from before our first write: one line each, whatever the setting; names of NICs that change. */
#include "originals.h"
#include "test.h"

#define BOOT "6f6c0b2e-8d3c-4a55-9a7c-6f2b9d1f0c11"
#define HEAD "boot " BOOT "\n"
#define EVERY_KIND                                                       \
        "sysctl\t-\tnet.ipv4.tcp_rmem\t4096 131072 6291456\n"              \
        "sysctl\t02:00:00:00:00:0a\tnet.ipv4.conf.eth0/7.rp_filter\t1\n"   \
        "nic.mtu\t02:00:00:00:00:0a\teth0.7\t1460\n"                       \
        "route.rto_min\t02:00:00:00:00:0b\t10.0.0.0/24 dev eth1 metric 5\t40ms,lock\n" \
        "nic.feature\t02:00:00:00:00:0a\teth0.7 tx-nocache-copy\toff\n"    \
        "nic.private_flag\t02:00:00:00:00:0b\teth1 some-flag\ton\n"        \
        "nic.mtu\t02:00:00:00:00:0b\teth1\t1460\n"

static struct link nic(int index, const char *name, uint8_t last) {
        struct link l = { .index = index, .address = { 2, 0, 0, 0, 0, last }, .address_len = 6 };

        (void) snprintf(l.name, sizeof(l.name), "%s", name);
        return l;
}

static int parse(const char *text, struct originals *ret) {
        return originals_parse(text, strlen(text), BOOT, ret);
}

static void assert_text(const struct originals *o, const char *wanted) {
        _cleanup_free_ char *text = NULL;
        size_t len;

        ASSERT_OK(originals_format(o, BOOT, &text, &len));
        ASSERT_STREQ(text, wanted);
        ASSERT_EQ(len, strlen(wanted));
}

static void test_every_kind_there_and_back(void) {
        _cleanup_originals_ struct originals o = ORIGINALS_NULL;

        ASSERT_OK(parse(HEAD EVERY_KIND, &o));
        ASSERT_EQ(o.n, 7);
        ASSERT_EQ(o.items[3].kind, OP_ROUTE);
        assert_text(&o, HEAD EVERY_KIND);
}

static void test_other_texts(void) {
        static const char *const bad[] = {
                "",
                "nonsense\n",
                HEAD "sysctl\t-\tnet.a\t1", /* cut */
                HEAD "sysctl\t-\tkernel.core_pattern\t|/bin/sh\n",
                HEAD EVERY_KIND "sysctl\t-\tnet.a\n",
                HEAD "sysctl\t-\tnet.a\t1\t2\n",
                HEAD "sysctl\t02:00\tnet.a\t1\n",
                HEAD "route.source\t-\ttable 847000003 default\tthrow\n",
                HEAD "route.rto_min\t-\tdefault dev eth0\t5\n",
                HEAD "nic.mtu\t-\teth0\t1460\n",
                HEAD "nic.mtu\t02:00:00:00:00:0a\teth0 x\t1460\n",
                HEAD "nic.feature\t02:00:00:00:00:0a\teth0\toff\n",
                HEAD "\n",
        };
        struct originals o = ORIGINALS_NULL;

        for (size_t k = 0; k < ELEMENTSOF(bad); k++)
                ASSERT_EQ(parse(bad[k], &o), -EBADMSG);
        ASSERT_OK(originals_parse(HEAD EVERY_KIND, strlen(HEAD EVERY_KIND), "another-boot", &o));
        ASSERT_EQ(o.n, 0);
}

static void add_op(struct plan *p, enum op_kind kind, int index, const char *subject, const char *from) {
        struct plan_op op = { .kind = kind, .index = index };

        finding_set(op.subject, "%s", subject);
        finding_set(op.from, "%s", from);
        ASSERT_OK(plan_add(p, &op));
}

/* The first value stays; a NIC that got another one's name is another one. */
static void test_noted_once(void) {
        struct link nics[] = { nic(2, "eth0", 0xa), nic(3, "eth1", 0xb) };
        struct link_table links = { nics, 2 };
        _cleanup_originals_ struct originals o = ORIGINALS_NULL;
        _cleanup_plan_ struct plan p = PLAN_NULL, again = PLAN_NULL;

        add_op(&p, OP_SYSCTL, 0, "net.ipv4.tcp_rmem", "1 2 3");
        add_op(&p, OP_MTU, 2, "eth0", "1460");
        add_op(&p, OP_SOURCE_ROUTE, 2, "table 847000002 default", "absent");
        ASSERT_EQ(originals_note(&o, &p, &links), 1);
        ASSERT_EQ(originals_note(&o, &p, &links), 0);
        add_op(&again, OP_SYSCTL, 0, "net.ipv4.tcp_rmem", "4 5 6");
        add_op(&again, OP_MTU, 2, "eth0", "5000");
        ASSERT_EQ(originals_note(&o, &again, &links), 0);
        assert_text(&o, HEAD "sysctl\t-\tnet.ipv4.tcp_rmem\t1 2 3\n"
                             "nic.mtu\t02:00:00:00:00:0a\teth0\t1460\n");
        nics[0].address[5] = 0xc;
        ASSERT_EQ(originals_note(&o, &again, &links), 1);
        ASSERT_EQ(o.n, 3);
        add_op(&p, OP_MTU, 9, "eth9", "1460");
        ASSERT_EQ(originals_note(&o, &p, &links), -ENODEV);
}

/* Routes come and go all day; what is there keeps its first value. */
static void test_room_for_routes(void) {
        struct link nics[] = { nic(2, "eth0", 0xa) };
        struct link_table links = { nics, 1 };
        struct route there[] = { { .family = AF_INET, .dst = { 10, 0, 0, 7 }, .dst_len = 32,
                                   .table = RT_TABLE_MAIN, .n_hops = 1, .hops = { 2 } } };
        const struct route_table routes = { there, 1 };
        _cleanup_originals_ struct originals o = ORIGINALS_NULL;
        _cleanup_plan_ struct plan p = PLAN_NULL, more = PLAN_NULL;

        add_op(&p, OP_SYSCTL, 0, "net.ipv4.tcp_rmem", "1 2 3");
        for (unsigned i = 0; i + 1 < ORIGINALS_MAX; i++) {
                char subject[64];

                (void) snprintf(subject, sizeof(subject), "10.0.%u.%u/32 dev eth0", i / 256, i % 256);
                add_op(&p, OP_ROUTE, 2, subject, i == 7 ? "40ms" : "none");
        }
        ASSERT_EQ(originals_note(&o, &p, &links), 1);
        ASSERT_EQ(o.n, (size_t) ORIGINALS_MAX);
        add_op(&more, OP_MTU, 2, "eth0", "1460");
        ASSERT_EQ(originals_note(&o, &more, &links), -E2BIG);
        ASSERT_OK(originals_make_room(&o, &more, &routes, &links));
        ASSERT_EQ(originals_note(&o, &more, &links), 1);
        assert_text(&o, HEAD "sysctl\t-\tnet.ipv4.tcp_rmem\t1 2 3\n"
                             "route.rto_min\t02:00:00:00:00:0a\t10.0.0.7/32 dev eth0\t40ms\n"
                             "nic.mtu\t02:00:00:00:00:0a\teth0\t1460\n");
}

/* Two NICs change names, a third is gone, a fourth shares its address with another one. */
static void test_names_are_followed(void) {
        struct link nics[] = { nic(2, "eth1", 0xa), nic(3, "eth0.7", 0xb), nic(4, "up", 0xd),
                               nic(5, "up2", 0xd) };
        struct link_table links = { nics, ELEMENTSOF(nics) };
        _cleanup_originals_ struct originals o = ORIGINALS_NULL;

        ASSERT_OK(parse(HEAD EVERY_KIND "nic.mtu\t02:00:00:00:00:0c\teth2\t1460\n"
                                        "nic.mtu\t02:00:00:00:00:0d\tup2\t1460\n", &o));
        originals_follow(&o, &links);
        assert_text(&o, HEAD "sysctl\t-\tnet.ipv4.tcp_rmem\t4096 131072 6291456\n"
                             "sysctl\t02:00:00:00:00:0a\tnet.ipv4.conf.eth1.rp_filter\t1\n"
                             "nic.mtu\t02:00:00:00:00:0a\teth1\t1460\n"
                             "route.rto_min\t02:00:00:00:00:0b\t10.0.0.0/24 dev eth0.7 metric 5\t40ms,lock\n"
                             "nic.feature\t02:00:00:00:00:0a\teth1 tx-nocache-copy\toff\n"
                             "nic.private_flag\t02:00:00:00:00:0b\teth0.7 some-flag\ton\n"
                             "nic.mtu\t02:00:00:00:00:0b\teth0.7\t1460\n"
                             "nic.mtu\t02:00:00:00:00:0c\teth2\t1460\n"
                             "nic.mtu\t02:00:00:00:00:0d\tup2\t1460\n");
        ASSERT_TRUE(original_link(&o.items[0], &links) == NULL);
        ASSERT_TRUE(original_link(&o.items[3], &links) == &nics[1]);
        ASSERT_TRUE(original_link(&o.items[7], &links) == NULL);
        ASSERT_TRUE(original_link(&o.items[8], &links) == &nics[3]);
}

static void test_those_of_absent_nics(void) {
        struct link eth1 = nic(3, "eth1", 0xb);
        struct link_table links = { &eth1, 1 };
        _cleanup_originals_ struct originals o = ORIGINALS_NULL;

        ASSERT_OK(parse(HEAD EVERY_KIND, &o));
        originals_keep_absent(&o, &links);
        assert_text(&o, HEAD "sysctl\t02:00:00:00:00:0a\tnet.ipv4.conf.eth0/7.rp_filter\t1\n"
                             "nic.mtu\t02:00:00:00:00:0a\teth0.7\t1460\n"
                             "nic.feature\t02:00:00:00:00:0a\teth0.7 tx-nocache-copy\toff\n");
}

TEST_MAIN(test_every_kind_there_and_back, test_other_texts, test_noted_once, test_room_for_routes,
          test_names_are_followed, test_those_of_absent_nics)
