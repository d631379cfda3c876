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

static void add_master(struct dump *d, const char *name, const char *kind) {
        const struct rtattr info = { .rta_type = IFLA_LINKINFO,
                                     .rta_len = (unsigned short) RTA_SPACE(RTA_SPACE(strlen(kind) + 1)) };

        begin_link(d, 4, name, IFF_UP, 1);
        put(d, &info, sizeof(info));
        attribute(d, IFLA_INFO_KIND, kind, strlen(kind) + 1);
        end(d);
}

static void add_address(struct dump *d, int index, uint8_t last) {
        const uint8_t own[4] = { 10, 0, 0, last };

        begin(d, RTM_NEWADDR,
              &(struct ifaddrmsg){
                      .ifa_family = AF_INET, .ifa_prefixlen = 24, .ifa_index = (unsigned) index },
              sizeof(struct ifaddrmsg));
        attribute(d, IFA_LOCAL, own, sizeof(own));
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
        add_master(&links, "bond0", "bond");
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

static void a_port_of_a_vrf(void) {
        const struct intent wanted = { .nics = "" };
        const struct probe_context c = { .intent = &wanted };
        struct dump links = { .len = 0 }, addresses = { .len = 0 };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got;

        add_port(&links, 2, "eth0", IFF_UP, 1);
        add_master(&links, "red", "vrf");
        done(&links);
        add_address(&addresses, 2, 1);
        done(&addresses);
        write_dump(&s, "netlink/links", &links);
        write_dump(&s, "netlink/addresses", &addresses);
        ASSERT_OK(probe(s.path, "nic", &c, &got));
        ASSERT_EQ(find(&got, "nic.link", "eth0")->verdict, VERDICT_FAIL);
        ASSERT_HAS(find(&got, "nic.link", "eth0")->reason, "the VRF red,");
        ASSERT_STREQ(find(&got, "nic.link", "eth0")->remedy, "sudo ip link set dev eth0 nomaster");
}

TEST_MAIN(ports_of_a_bond, a_port_of_a_vrf)
