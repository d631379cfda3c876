/* SPDX-License-Identifier: Apache-2.0 */
/* A data-centre NIC that others carry: a bond by its ports. */
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <net/if.h>
#include <net/if_arp.h>

#include "intent.h"
#include "netlink-dump.h"
#include "probe-support.h"

static void begin_link(struct dump *d, int index, const char *name, unsigned flags, uint8_t carrier) {
        const unsigned char mac[6] = { 2, 0, 0, 0, 0, (unsigned char) index };

        begin(d, RTM_NEWLINK,
              &(struct ifinfomsg){ .ifi_type = ARPHRD_ETHER, .ifi_index = index, .ifi_flags = flags },
              sizeof(struct ifinfomsg));
        attribute(d, IFLA_IFNAME, name, strlen(name) + 1);
        number(d, IFLA_MTU, 1460);
        attribute(d, IFLA_CARRIER, &carrier, 1);
        attribute(d, IFLA_ADDRESS, mac, sizeof(mac));
}

static void add_port(struct dump *d, int index, const char *name, unsigned flags, uint8_t carrier) {
        begin_link(d, index, name, flags, carrier);
        number(d, IFLA_MASTER, 4);
        end(d);
}

static void add_bond(struct dump *d) {
        static const char kind[] = "bond";

        begin_link(d, 4, "bond0", IFF_UP, 1);
        put(d, &(struct rtattr){ .rta_type = IFLA_LINKINFO, .rta_len = 4 + 4 + 8 }, 4);
        attribute(d, IFLA_INFO_KIND, kind, sizeof(kind));
        end(d);
}

static void add_qdisc(struct dump *d, int index, const char *kind) {
        begin(d, RTM_NEWQDISC,
              &(struct tcmsg){ .tcm_ifindex = index, .tcm_handle = 0x10000, .tcm_parent = TC_H_ROOT },
              sizeof(struct tcmsg));
        attribute(d, TCA_KIND, kind, strlen(kind) + 1);
        end(d);
}

static void write_dump(const struct scratch *s, const char *name, const struct dump *d) {
        char path[512];
        FILE *f;

        scratch_path(s, name, path);
        f = fopen(path, "w");
        ASSERT_TRUE(f && fwrite(d->data, 1, d->len, f) == d->len && fclose(f) == 0);
}

static void ports_of_a_bond(void) {
        const struct intent wanted = { .nics = "bond0" };
        const struct probe_context c = { .intent = &wanted };
        struct dump links = { .len = 0 }, qdiscs = { .len = 0 };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got;

        add_port(&links, 2, "eth0", IFF_UP, 0);
        add_port(&links, 3, "eth1", 0, 0);
        add_bond(&links);
        add_port(&links, 5, "eth2", IFF_UP, 1);
        done(&links);
        add_qdisc(&qdiscs, 4, "noqueue");
        add_qdisc(&qdiscs, 5, "tbf");
        done(&qdiscs);
        write_dump(&s, "netlink/links", &links);
        write_dump(&s, "netlink/qdiscs", &qdiscs);
        ASSERT_OK(probe(s.path, "nic", &c, &got));
        ASSERT_EQ(find(&got, "nic.link", "bond0")->verdict, VERDICT_OK);
        ASSERT_EQ(find(&got, "nic.link", "eth0")->verdict, VERDICT_WARN);
        ASSERT_STREQ(find(&got, "nic.link", "eth0")->found, "up, no carrier");
        ASSERT_HAS(find(&got, "nic.link", "eth0")->reason, "a port of bond0, which");
        ASSERT_EQ(find(&got, "nic.link", "eth1")->verdict, VERDICT_WARN);
        ASSERT_STREQ(find(&got, "nic.link", "eth1")->remedy, "sudo ip link set dev eth1 up");
        for (size_t i = 0; i < got.findings.n; i++)
                ASSERT_FALSE(streq(got.findings.items[i].check, "nic.link") &&
                             streq(got.findings.items[i].subject, "eth2"));
        ASSERT_EQ(find(&got, "nic.qdisc", "bond0")->verdict, VERDICT_OK);
        ASSERT_EQ(find(&got, "nic.qdisc", "eth2")->verdict, VERDICT_WARN);
        ASSERT_STREQ(find(&got, "nic.qdisc", "eth2")->found, "tbf");
}

TEST_MAIN(ports_of_a_bond)
