/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>

#include "links.h"
#include "scratch.h"
#include "test.h"

/* A dump written by hand: what the kernel would answer. */
struct dump {
        _Alignas(8) unsigned char data[8192];
        size_t len, message;
};

static void put(struct dump *d, const void *data, size_t len) {
        ASSERT_TRUE(d->len + NLMSG_ALIGN(len) <= sizeof(d->data));
        if (len > 0)
                memcpy(d->data + d->len, data, len);
        memset(d->data + d->len + len, 0, NLMSG_ALIGN(len) - len);
        d->len += NLMSG_ALIGN(len);
}

static void message(struct dump *d, uint16_t type, uint16_t flags) {
        d->message = d->len;
        put(d, &(struct nlmsghdr) { .nlmsg_type = type, .nlmsg_flags = flags | NLM_F_MULTI, .nlmsg_seq = 1 },
            sizeof(struct nlmsghdr));
}

static void end(struct dump *d) {
        uint32_t len = (uint32_t) (d->len - d->message);

        memcpy(d->data + d->message, &len, sizeof(len));
}

static void attribute(struct dump *d, uint16_t type, const void *data, size_t len) {
        put(d,
            &(struct rtattr) { .rta_type = type, .rta_len = (unsigned short) (sizeof(struct rtattr) + len) },
            sizeof(struct rtattr));
        put(d, data, len);
}

static void number(struct dump *d, uint16_t type, uint32_t v) {
        attribute(d, type, &v, sizeof(v));
}

/* peer: 0 none, 1 here, 2 in another namespace */
static void link_message(struct dump *d, int index, const char *name, const char *kind, int peer,
                         uint32_t master) {
        const unsigned char address[6] = { 2, 0, 0, 0, 0, (unsigned char) index };
        const uint8_t carrier = 1;

        message(d, RTM_NEWLINK, 0);
        put(d, &(struct ifinfomsg) { .ifi_type = ARPHRD_ETHER, .ifi_index = index, .ifi_flags = IFF_UP },
            sizeof(struct ifinfomsg));
        attribute(d, IFLA_IFNAME, name, strlen(name) + 1);
        number(d, IFLA_MTU, 1460);
        number(d, IFLA_MIN_MTU, 68);
        number(d, IFLA_MAX_MTU, 9000);
        attribute(d, IFLA_CARRIER, &carrier, 1);
        attribute(d, IFLA_ADDRESS, address, sizeof(address));
        if (master)
                number(d, IFLA_MASTER, master);
        if (kind) {
                size_t n = strlen(kind) + 1;

                put(d,
                    &(struct rtattr) { .rta_type = IFLA_LINKINFO,
                                      .rta_len = (unsigned short) (4 + 4 + NLMSG_ALIGN(n)) },
                    4);
                attribute(d, IFLA_INFO_KIND, kind, n);
        }
        if (peer)
                number(d, IFLA_LINK, 77);
        if (peer == 2)
                number(d, IFLA_LINK_NETNSID, 0);
        end(d);
}

static void done(struct dump *d) {
        const uint32_t zero = 0;

        message(d, NLMSG_DONE, 0);
        put(d, &zero, sizeof(zero));
        end(d);
}

static const struct link *named(const struct link_table *t, const char *name) {
        for (size_t i = 0; i < t->n; i++)
                if (streq(t->links[i].name, name))
                        return &t->links[i];
        test_fail(__FILE__, __LINE__, "there is no link %s", name);
}

static void test_fields(void) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        struct dump d = { 0 };

        link_message(&d, 9, "eth1", "veth", 2, 0);
        link_message(&d, 3, "eth0", NULL, 0, 4);
        done(&d);
        ASSERT_OK(links_parse(d.data, d.len, &t));
        ASSERT_EQ(t.n, 2);
        ASSERT_STREQ(t.links[0].name, "eth0"); /* sorted by index */
        ASSERT_EQ(t.links[0].index, 3);
        ASSERT_EQ(t.links[0].master, 4);
        ASSERT_STREQ(t.links[0].kind, "");
        ASSERT_FALSE(t.links[0].peer_elsewhere);
        ASSERT_STREQ(t.links[1].kind, "veth");
        ASSERT_EQ(t.links[0].lower, 0);
        ASSERT_EQ(t.links[0].lower_nsid, -1);
        ASSERT_EQ(t.links[1].lower, 77);
        ASSERT_EQ(t.links[1].lower_nsid, 0);
        ASSERT_TRUE(t.links[1].peer_elsewhere && t.links[1].up && t.links[1].carrier);
        ASSERT_EQ(t.links[1].mtu, 1460);
        ASSERT_EQ(t.links[1].min_mtu, 68);
        ASSERT_EQ(t.links[1].max_mtu, 9000);
        ASSERT_EQ(t.links[1].address_len, 6);
        ASSERT_EQ(t.links[1].address[5], 9);
        ASSERT_EQ(t.links[1].arp_type, ARPHRD_ETHER);
}

/* In the driver alone, or in it and before it: then each has a number of its own. */
static void test_xdp(void) {
        static const struct {
                uint16_t first, second;
        } cases[] = { { IFLA_XDP_PROG_ID, IFLA_XDP_DRV_PROG_ID },
                      { IFLA_XDP_DRV_PROG_ID, IFLA_XDP_SKB_PROG_ID } };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
                struct dump d = { 0 };

                link_message(&d, 2, "eth0", NULL, 0, 0);
                put(&d, &(struct rtattr) { .rta_type = IFLA_XDP, .rta_len = 4 + 8 + 8 }, 4);
                number(&d, cases[i].first, 17);
                number(&d, cases[i].second, 18);
                end(&d); /* the message is as long as this now */
                link_message(&d, 3, "eth1", NULL, 0, 0);
                done(&d);
                ASSERT_OK(links_parse(d.data, d.len, &t));
                ASSERT_EQ(t.links[0].xdp, 17);
                ASSERT_EQ(t.links[1].xdp, 0);
        }
}

/* udev gives a NIC several; one that has no room is left out whole. */
static void test_altnames(void) {
        static const char *const names[] = { "enp0s4", "net-a" };
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        struct dump d = { 0 };
        char longest[128];

        memset(longest, 'x', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        link_message(&d, 2, "ens4", NULL, 0, 0);
        put(&d, &(struct rtattr) { .rta_type = IFLA_PROP_LIST | NLA_F_NESTED, .rta_len = 4 + 12 + 12 }, 4);
        attribute(&d, IFLA_ALT_IFNAME, names[0], strlen(names[0]) + 1);
        attribute(&d, IFLA_ALT_IFNAME, names[1], strlen(names[1]) + 1);
        end(&d);
        link_message(&d, 3, "ens5", NULL, 0, 0);
        put(&d, &(struct rtattr) { .rta_type = IFLA_PROP_LIST, .rta_len = 4 + 132 + 132 + 12 }, 4);
        attribute(&d, IFLA_ALT_IFNAME, longest, sizeof(longest));
        attribute(&d, IFLA_ALT_IFNAME, longest, sizeof(longest));
        attribute(&d, IFLA_ALT_IFNAME, names[0], strlen(names[0]) + 1);
        end(&d);
        done(&d);
        ASSERT_OK(links_parse(d.data, d.len, &t));
        ASSERT_STREQ(t.links[0].altnames, "enp0s4 net-a");
        ASSERT_EQ(strlen(t.links[1].altnames), 127 + 127 + 1);
}

static void test_data_nics_with_hardware(void) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        struct dump d = { 0 };

        link_message(&d, 2, "ens8", NULL, 0, 0);
        link_message(&d, 3, "bonded", NULL, 0, 9);
        link_message(&d, 4, "docker0", "bridge", 0, 0);
        link_message(&d, 5, "veth1", "veth", 2, 4);
        link_message(&d, 6, "lxc1", "veth", 2, 0);
        link_message(&d, 7, "gre0", "gretap", 0, 0);
        link_message(&d, 9, "bond0", "bond", 0, 0);
        done(&d);
        ASSERT_OK(links_parse(d.data, d.len, &t));
        for (size_t i = 0; i < t.n; i++)
                ASSERT_EQ(link_is_data_nic(&t.links[i]), streq(t.links[i].name, "ens8"));
}

#define PARENT_BUS 57 /* IFLA_PARENT_DEV_BUS_NAME, kernel 5.14 */

static void bus_message(struct dump *d, int index, const char *name, const char *bus) {
        const unsigned char address[6] = { 2, 0, 0, 0, 0, (unsigned char) index };

        message(d, RTM_NEWLINK, 0);
        put(d, &(struct ifinfomsg){ .ifi_type = ARPHRD_ETHER, .ifi_index = index },
            sizeof(struct ifinfomsg));
        attribute(d, IFLA_IFNAME, name, strlen(name) + 1);
        attribute(d, IFLA_ADDRESS, address, sizeof(address));
        attribute(d, PARENT_BUS, bus, strlen(bus) + 1);
        end(d);
}

static void test_data_nics_by_bus(void) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        struct dump d = { .len = 0 };

        bus_message(&d, 2, "eth0", "pci");
        bus_message(&d, 3, "ens4", "virtio");
        bus_message(&d, 4, "eth1", "usb");
        bus_message(&d, 5, "eth2", "a-bus-with-a-name-that-is-cut");
        done(&d);
        ASSERT_OK(links_parse(d.data, d.len, &t));
        ASSERT_STREQ(named(&t, "eth0")->bus, "pci");
        ASSERT_TRUE(link_is_data_nic(named(&t, "eth0")) && link_is_data_nic(named(&t, "ens4")));
        ASSERT_FALSE(link_is_data_nic(named(&t, "eth1")) || link_is_data_nic(named(&t, "eth2")));
}

static void test_stated_mtu(void) {
        struct link l = { .driver = "gve", .max_mtu = 8896 };

        ASSERT_EQ(link_stated_mtu(&l), 8896);
        l = (struct link) { .driver = "virtio_net", .max_mtu = 8896 };
        ASSERT_EQ(link_stated_mtu(&l), 8896);
        l.max_mtu = 65535; /* the driver's own limit: the host offers none */
        ASSERT_EQ(link_stated_mtu(&l), 0);
        l = (struct link) { .kind = "veth", .max_mtu = 65535 };
        ASSERT_EQ(link_stated_mtu(&l), 0);
}

/* A recorded machine's drivers are those of its own /sys. */
static void test_recorded_driver(void) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        struct dump d = { .len = 0 };
        char path[512];
        FILE *f;

        link_message(&d, 2, "eth0", NULL, 0, 0);
        link_message(&d, 3, "eth1", NULL, 0, 0);
        done(&d);
        scratch_path(&s, "netlink/links", path);
        f = fopen(path, "w");
        ASSERT_TRUE(f && fwrite(d.data, 1, d.len, f) == d.len);
        ASSERT_OK(fclose(f));
        scratch_link(&s, "sys/class/net/eth0/device/driver", "../../../bus/pci/drivers/gve");
        scratch_link(&s, "sys/class/net/eth0/device/subsystem", "../../../bus/pci");
        scratch_link(&s, "sys/class/net/eth1/device/subsystem", "../../../bus/usb");
        ASSERT_OK(host_open(s.path, &h));
        ASSERT_OK(links_read(&h, &t));
        ASSERT_STREQ(named(&t, "eth0")->driver, "gve");
        ASSERT_STREQ(named(&t, "eth0")->bus, "pci");
        ASSERT_STREQ(named(&t, "eth1")->driver, "");
        ASSERT_TRUE(link_is_data_nic(named(&t, "eth0")));
        ASSERT_FALSE(link_is_data_nic(named(&t, "eth1")));
}

static void test_data_nics_of_a_container(void) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        struct dump d = { 0 };

        link_message(&d, 2, "eth0", "veth", 2, 0);
        link_message(&d, 3, "inner", "veth", 1, 0);
        link_message(&d, 5, "port", "veth", 2, 4);
        link_message(&d, 6, "eth1", "macvlan", 2, 0);
        link_message(&d, 7, "eth2", "ipvlan", 2, 0);
        link_message(&d, 8, "mine", "macvlan", 1, 0);
        link_message(&d, 9, "tap", "macvtap", 2, 0);
        link_message(&d, 10, "vlan", "vlan", 2, 0);
        done(&d);
        ASSERT_OK(links_parse(d.data, d.len, &t));
        ASSERT_TRUE(link_is_data_nic(named(&t, "eth0")));
        ASSERT_TRUE(link_is_data_nic(named(&t, "eth1")) && link_is_data_nic(named(&t, "eth2")));
        ASSERT_FALSE(link_is_data_nic(named(&t, "mine")) || link_is_data_nic(named(&t, "tap")) ||
                     link_is_data_nic(named(&t, "vlan")));
        ASSERT_FALSE(link_is_data_nic(named(&t, "inner")));
        ASSERT_FALSE(link_is_data_nic(named(&t, "port")));
}

static void test_endings(void) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        struct dump d = { 0 }, e = { 0 }, f = { 0 }, g = { 0 };

        done(&d);
        ASSERT_OK(links_parse(d.data, d.len, &t));
        ASSERT_EQ(t.n, 0);
        ASSERT_EQ(links_parse(d.data, 0, &t), -EBADMSG);
        message(&d, NLMSG_DONE, 0);
        end(&d);
        ASSERT_EQ(links_parse(d.data, d.len, &t), -EBADMSG); /* something after the end */

        message(&e, NLMSG_ERROR, 0);
        put(&e, &(struct nlmsgerr) { .error = -EPERM }, sizeof(struct nlmsgerr));
        end(&e);
        ASSERT_EQ(links_parse(e.data, e.len, &t), -EPERM);

        message(&f, NLMSG_DONE, NLM_F_DUMP_INTR);
        end(&f);
        ASSERT_EQ(links_parse(f.data, f.len, &t), -EINTR);

        message(&g, RTM_NEWROUTE, 0);
        end(&g);
        done(&g);
        ASSERT_EQ(links_parse(g.data, g.len, &t), -EBADMSG);
        ASSERT_EQ(t.n, 0); /* untouched on failure */
}

static void test_bad_attributes(void) {
        const struct {
                uint16_t type;
                const char *data;
                size_t len;
        } bad[] = { { IFLA_MTU, "ab", 2 },
                    { IFLA_IFNAME, "a name that is far too long", 28 },
                    { IFLA_IFNAME, "", 0 },
                    { IFLA_CARRIER, "", 0 } };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                struct link_table t = LINK_TABLE_NULL;
                struct dump d = { 0 };

                message(&d, RTM_NEWLINK, 0);
                put(&d, &(struct ifinfomsg) { .ifi_index = 1 }, sizeof(struct ifinfomsg));
                if (bad[i].type != IFLA_IFNAME)
                        attribute(&d, IFLA_IFNAME, "eth0", 5);
                attribute(&d, bad[i].type, bad[i].data, bad[i].len);
                end(&d);
                done(&d);
                ASSERT_EQ(links_parse(d.data, d.len, &t), -EBADMSG);
        }
}

static void test_too_many(void) {
        _cleanup_free_ unsigned char *all = malloc((LINKS_MAX + 1) * sizeof(struct dump));
        struct link_table t = LINK_TABLE_NULL;
        size_t len = 0;
        struct dump d;

        ASSERT_TRUE(all != NULL);
        for (int i = 1; i <= LINKS_MAX + 1; i++) {
                d = (struct dump) { 0 };
                link_message(&d, i, "same", NULL, 0, 0);
                memcpy(all + len, d.data, d.len);
                len += d.len;
        }
        ASSERT_EQ(links_parse(all, len, &t), -E2BIG);
}

static void open_fixture(const char *root, struct host *ret) {
        ASSERT_OK(host_open(root, ret));
}

static void test_recorded(void) {
        _cleanup_host_ struct host h = HOST_NULL, bare = HOST_NULL;
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;

        open_fixture(FIXTURES "/netcfg-v6e", &h);
        ASSERT_OK(links_read(&h, &t));
        ASSERT_EQ(t.n, 4);
        ASSERT_TRUE(link_is_data_nic(named(&t, "eth0")) && link_is_data_nic(named(&t, "eth1")));
        ASSERT_FALSE(link_is_data_nic(named(&t, "lo")) || link_is_data_nic(named(&t, "docker0")));
        ASSERT_EQ(named(&t, "eth1")->mtu, 1460);
        ASSERT_EQ(named(&t, "eth0")->max_mtu, 65535);

        open_fixture(s.path, &bare);
        ASSERT_EQ(links_read(&bare, &t), -ENODATA); /* never the real machine's */
        scratch_write(&s, "netlink/links", "rubbish");
        ASSERT_EQ(links_read(&bare, &t), -EBADMSG);
}

static size_t read_fixture(unsigned char *buf, size_t size) {
        FILE *f = fopen(FIXTURES "/netcfg-v6e/netlink/links", "r");
        size_t n;

        ASSERT_TRUE(f != NULL);
        n = fread(buf, 1, size, f);
        ASSERT_OK(fclose(f));
        ASSERT_TRUE(n > 0 && n < size);
        return n;
}

/* Cut anywhere, a dump is refused; with bytes changed anywhere it is refused or read, and never anything
 * worse. */
static void test_cut_and_changed(void) {
        unsigned char good[16384];
        size_t len = read_fixture(good, sizeof(good));
        struct link_table t;
        unsigned read = 0;

        srandom(test_seed());
        for (size_t n = 0; n < len; n++)
                ASSERT_EQ(links_parse(good, n, &t), -EBADMSG);
        for (int i = 0; i < 20000; i++) {
                _cleanup_free_ unsigned char *bad =
                        malloc(len); /* exactly as long, so that a sanitizer sees the end */

                ASSERT_TRUE(bad != NULL);
                memcpy(bad, good, len);
                for (long k = random() % 4; k >= 0; k--)
                        bad[(size_t) random() % len] = (unsigned char) random();
                t = LINK_TABLE_NULL;
                read += links_parse(bad, len, &t) == 0;
                link_table_clear(&t);
        }
        ASSERT_TRUE(read > 0 && read < 20000);
}

/* The real kernel: every namespace has a lo. */
static void test_live(void) {
        _cleanup_host_ struct host h = HOST_NULL;
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;

        ASSERT_OK(host_open(NULL, &h));
        ASSERT_OK(links_read(&h, &t));
        ASSERT_EQ(named(&t, "lo")->arp_type, ARPHRD_LOOPBACK);
        ASSERT_FALSE(link_is_data_nic(named(&t, "lo")));
}

TEST_MAIN(test_data_nics_by_bus, test_stated_mtu, test_recorded_driver, test_fields, test_xdp, test_altnames,
          test_data_nics_with_hardware, test_data_nics_of_a_container, test_endings, test_bad_attributes,
          test_too_many, test_recorded, test_cut_and_changed, test_live)
