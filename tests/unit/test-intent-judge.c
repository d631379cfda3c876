/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if_arp.h>
#include <sys/stat.h>

#include "intent.h"
#include "nic_setting.h"
#include "scratch.h"
#include "texts.h"
#include "test.h"

static void test_which_nics(void) {
        struct intent i = { 0 };
        struct link l = { .index = 2, .name = "ens4", .arp_type = ARPHRD_ETHER, .address_len = 6 },
                    bridge = { .index = 3,
                               .name = "br0",
                               .kind = "bridge",
                               .arp_type = ARPHRD_ETHER,
                               .address_len = 6 },
                    lo = { .index = 1, .name = "lo", .arp_type = ARPHRD_LOOPBACK, .address_len = 6 };

        ASSERT_TRUE(intent_is_data_nic(&i, &l));
        ASSERT_FALSE(intent_is_data_nic(&i, &bridge));
        (void) snprintf(i.ignore_nics, sizeof(i.ignore_nics), "eth*, ens4");
        ASSERT_FALSE(intent_is_data_nic(&i, &l));
        (void) snprintf(i.nics, sizeof(i.nics), "*");
        ASSERT_FALSE(intent_is_data_nic(&i, &l)); /* who is ignored is ignored */
        ASSERT_TRUE(intent_is_data_nic(&i, &bridge));
        ASSERT_FALSE(intent_is_data_nic(&i, &lo)); /* no one can name it */
        i.ignore_nics[0] = '\0';
        (void) snprintf(i.nics, sizeof(i.nics), "br?");
        ASSERT_FALSE(intent_is_data_nic(&i, &l));
        ASSERT_TRUE(intent_is_data_nic(&i, &bridge));
        (void) snprintf(l.altnames, sizeof(l.altnames), "enp0s4 eth0");
        (void) snprintf(i.nics, sizeof(i.nics), "eth0");
        ASSERT_TRUE(intent_is_data_nic(&i, &l)); /* by its other names, too */
        (void) snprintf(i.ignore_nics, sizeof(i.ignore_nics), "enp*");
        ASSERT_FALSE(intent_is_data_nic(&i, &l));
}

/* Nics= that this host has not. */
static void test_named_nics(void) {
        static const struct {
                const char *nics, *found;
        } t[] = {
                { "", "" },           { "ens4", "" },
                { "ens*", "" },       { "ens4, br0", "" },
                { "eth* ens*", "" },  { "ens4 eth9", "not there: eth9" },
                { "eth9\teth8", "not there: eth9,eth8" },
                { "eth*", "not there: eth*" }, { "lo", "not there: lo" },
                { "enp0s4", "" },     { "net-a enp0s5", "not there: enp0s5" },
        };
        struct link links[] = {
                { .index = 1, .name = "lo", .arp_type = ARPHRD_LOOPBACK },
                { .index = 2, .name = "ens4", .altnames = "enp0s4 net-a", .arp_type = ARPHRD_ETHER,
                  .address_len = 6 },
                { .index = 3, .name = "br0", .kind = "bridge", .arp_type = ARPHRD_ETHER, .address_len = 6 },
        };
        const struct link_table table = { links, ELEMENTSOF(links) };

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                struct intent i = { .nics_where = "/etc/x.conf:3" };
                struct finding f;

                (void) snprintf(i.nics, sizeof(i.nics), "%s", t[k].nics);
                ASSERT_EQ(intent_judge_names(&i, &table, &f), t[k].found[0] != '\0');
                if (!t[k].found[0])
                        continue;
                ASSERT_EQ(f.verdict, VERDICT_WARN);
                ASSERT_STREQ(f.check, "nic.count");
                ASSERT_STREQ(f.subject, "Nics=");
                ASSERT_STREQ(f.found, t[k].found);
                ASSERT_STREQ(f.source, "/etc/x.conf:3");
                ASSERT_TRUE(strstr(f.reason, "there are: ens4") != NULL);
                ASSERT_TRUE(startswith(f.remedy, "sudoedit /etc/x.conf; "));
        }
}

static struct link nic(uint32_t mtu, uint32_t max) {
        return (struct link) { .index = 2, .name = "eth0", .mtu = mtu, .min_mtu = 68, .max_mtu = max };
}

static void test_mtu_rule(void) {
        static const struct {
                uint32_t profile, network, max, wanted;
        } t[] = {
                { 8896, 8896, 65535, 8896 }, { 8896, 1460, 65535, 1460 }, { 8896, 8896, 1500, 1500 },
                { 8896, 8896, 0, 8896 },     { 8896, 0, 65535, 0 },       { 0, 8896, 65535, 0 },
                { 1500, 8896, 65535, 1500 },
        };

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                struct intent i = { .mtu = t[k].profile, .network_mtu = t[k].network };
                struct link l = nic(1460, t[k].max);
                const char *why;

                ASSERT_EQ(intent_mtu(&i, &l, &why), t[k].wanted);
                ASSERT_EQ(why != NULL, t[k].wanted == 0);
        }
}

static void judge(uint32_t profile_mtu, uint32_t network, uint32_t mtu, uint32_t max, enum verdict wanted,
                  const char *remedy) {
        struct intent i = { .mtu = profile_mtu, .network_mtu = network, .mtu_source = "docs" };
        struct link l = nic(mtu, max);
        struct finding f;

        intent_judge_mtu(&i, &l, &f);
        ASSERT_STREQ(verdict_name(f.verdict), verdict_name(wanted));
        ASSERT_STREQ(f.check, "nic.mtu");
        ASSERT_STREQ(f.subject, "eth0");
        ASSERT_TRUE(strstr(f.remedy, remedy) != NULL);
}

/* While the network's MTU is not known: who states one, and what then happens. */
static void test_stated_mtu(void) {
        static const struct {
                const char *driver;
                uint32_t max, now, wanted;
                enum verdict verdict;
        } t[] = {
                { "gve", 8896, 1460, 8896, VERDICT_FAIL },
                { "gve", 8896, 8896, 8896, VERDICT_OK },
                { "gve", 1460, 1460, 1460, VERDICT_FAIL },
                { "gve", 0, 1460, 0, VERDICT_UNKNOWN },
                { "gve", 9000, 9000, 9000, VERDICT_OK },
                { "virtio_net", 8896, 1460, 8896, VERDICT_FAIL },
                { "virtio_net", 65535, 1460, 0, VERDICT_UNKNOWN },
                { "ixgbe", 9702, 1460, 0, VERDICT_UNKNOWN },
                { "", 65535, 1460, 0, VERDICT_UNKNOWN },
                { "gve", 100, 1460, 0, VERDICT_UNKNOWN },
        };
        const struct intent i = { .mtu = 8896 };

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                struct link l = nic(t[k].now, t[k].max);
                struct finding f;

                (void) snprintf(l.driver, sizeof(l.driver), "%s", t[k].driver);
                ASSERT_EQ(intent_mtu(&i, &l, NULL), t[k].wanted);
                intent_judge_mtu(&i, &l, &f);
                ASSERT_STREQ(verdict_name(f.verdict), verdict_name(t[k].verdict));
                ASSERT_EQ(f.remedy[0] != 0, t[k].verdict != VERDICT_OK);
        }
}

static void test_mtu_verdicts(void) {
        judge(8896, 8896, 8896, 65535, VERDICT_OK, "");
        judge(8896, 8896, 1460, 65535, VERDICT_FAIL, "sudo tpu-netcfg --once");
        judge(8896, 1460, 1460, 65535, VERDICT_FAIL, "--mtu=8896");
        judge(8896, 1460, 8896, 65535, VERDICT_FAIL, "gcloud");
        judge(8896, 8896, 1500, 1500, VERDICT_WARN, "GVNIC");
        judge(8896, 0, 1460, 65535, VERDICT_UNKNOWN, "gcloud compute networks list");
        judge(0, 8896, 1460, 65535, VERDICT_OK, "");
}

/* With such a program the driver may refuse what is typed. */
static void test_mtu_with_xdp(void) {
        const struct intent i = { .mtu = 8896, .network_mtu = 8896 };
        struct link l = nic(1460, 65535);
        struct finding f;

        l.xdp = 17;
        intent_judge_mtu(&i, &l, &f);
        ASSERT_EQ(f.verdict, VERDICT_FAIL);
        ASSERT_TRUE(strstr(f.reason, "the XDP program 17") != NULL);
        ASSERT_TRUE(strstr(f.remedy, "sudo tpu-netcfg --once # where that is refused") != NULL);
        l.mtu = 8896;
        intent_judge_mtu(&i, &l, &f);
        ASSERT_EQ(f.verdict, VERDICT_OK);
}

static void test_sysctl_verdicts(void) {
        const struct intent_sysctl s = { .name = "net.ipv4.tcp_rmem", .value = "1 2 3", .source = "docs" };
        struct finding f;

        intent_judge_sysctl(&s, "1\t2\t3\n", 0, &f);
        ASSERT_EQ(f.verdict, VERDICT_OK);
        ASSERT_STREQ(f.found, "1 2 3");
        intent_judge_sysctl(&s, "1 2 4", 0, &f);
        ASSERT_EQ(f.verdict, VERDICT_FAIL);
        intent_judge_sysctl(&s, NULL, -ENOENT, &f);
        ASSERT_EQ(f.verdict, VERDICT_UNKNOWN);
        ASSERT_STREQ(f.reason, "this kernel has no such sysctl");
        intent_judge_sysctl(&s, NULL, -EACCES, &f);
        ASSERT_EQ(f.verdict, VERDICT_UNKNOWN);
        intent_judge_sysctl(&s, "1 2 4", -EROFS, &f);
        ASSERT_EQ(f.verdict, VERDICT_UNKNOWN);
        ASSERT_TRUE(strstr(f.reason, "read-only") != NULL);
        intent_judge_sysctl(&s, "1 2 3", -EROFS, &f);
        ASSERT_EQ(f.verdict, VERDICT_OK);
        for (size_t blanks = 150; blanks < 1100; blanks += 50) { /* wherever it may be cut */
                char value[1200];

                (void) snprintf(value, sizeof(value), "1 2 3%*s4", (int) blanks, "");
                intent_judge_sysctl(&s, value, 0, &f);
                ASSERT_EQ(f.verdict, VERDICT_FAIL);
        }
}

static void test_reading_sysctls_and_parameters(void) {
        const struct intent_sysctl p = { .name = "tcp_cubic.hystart_detect",
                                         .value = "2",
                                         .source = "docs" };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        struct finding f;
        char value[32], path[512];

        ASSERT_OK(host_open(s.path, &h));
        ASSERT_EQ(intent_read_sysctl(&h, "net.core.optmem_max", value, sizeof(value)), -ENOENT);
        scratch_write(&s, "proc/sys/net/core/optmem_max", "20480\n");
        ASSERT_OK(intent_read_sysctl(&h, "net.core.optmem_max", value, sizeof(value)));
        scratch_path(&s, "proc/sys/net/core/optmem_max", path);
        ASSERT_OK(chmod(path, 0444));
        ASSERT_EQ(intent_read_sysctl(&h, "net.core.optmem_max", value, sizeof(value)), -EROFS);
        ASSERT_STREQ(value, "20480");

        ASSERT_EQ(intent_read_parameter(&h, p.name, value, sizeof(value)), -ENOENT);
        scratch_write(&s, "sys/module/tcp_cubic/parameters/hystart_detect", "3\n");
        ASSERT_OK(intent_read_parameter(&h, p.name, value, sizeof(value)));
        intent_judge_parameter(&p, value, 0, intent_in_container(&h), &f);
        ASSERT_EQ(f.verdict, VERDICT_FAIL);
        ASSERT_TRUE(startswith(f.remedy, "sudo tpu-netcfg --once"));
        scratch_write(&s, "run/systemd/container", "lxc\n");
        intent_judge_parameter(&p, value, 0, intent_in_container(&h), &f);
        ASSERT_EQ(f.verdict, VERDICT_UNKNOWN);
        ASSERT_TRUE(startswith(f.reason, "read-only here"));
        intent_judge_parameter(&p, NULL, -ENOENT, true, &f);
        ASSERT_EQ(f.verdict, VERDICT_UNKNOWN);
        ASSERT_TRUE(startswith(f.reason, "read-only here"));
        intent_judge_parameter(&p, NULL, -ENOENT, false, &f);
        ASSERT_EQ(f.verdict, VERDICT_UNKNOWN);
        intent_judge_parameter(&p, "2", 0, true, &f);
        ASSERT_EQ(f.verdict, VERDICT_OK);
        ASSERT_STREQ(f.reason, "");
        ASSERT_EQ(intent_read_parameter(&h, "nodot", value, sizeof(value)), -EINVAL);
        ASSERT_EQ(intent_read_parameter(&h, "../x.y", value, sizeof(value)), -EINVAL);
}

static void test_sysctl_names(void) {
        static const char *const bad[] = { "",       ".",          "net.",         ".net",
                                           "net..x", "net/ipv4",   "net.ipv4.a b", "net.a/",
                                           "..",     "net.ipv4.\n", "net.a/.b",  "net.a//b", "net./a" };
        char path[64], text[] = " \t1\t\t2 \n";

        ASSERT_OK(intent_sysctl_path("net.ipv4.tcp_rmem", path, sizeof(path)));
        ASSERT_STREQ(path, "/proc/sys/net/ipv4/tcp_rmem");
        ASSERT_EQ(intent_sysctl_path("net.ipv4.tcp_rmem", path, 27), -ENAMETOOLONG);
        ASSERT_OK(intent_sysctl_path("net.ipv4.tcp_rmem", path, 28));
        ASSERT_OK(intent_sysctl_path("net.ipv4.conf.enP1s0/7.rp_filter", path, sizeof(path)));
        ASSERT_STREQ(path, "/proc/sys/net/ipv4/conf/enP1s0.7/rp_filter");
        for (size_t k = 0; k < ELEMENTSOF(bad); k++)
                ASSERT_EQ(intent_sysctl_path(bad[k], path, sizeof(path)), -EINVAL);
        intent_sysctl_normalize(text);
        ASSERT_STREQ(text, "1 2");
}

/* What is found of one setting, and the verdict on it. */
static void judge_setting(struct intent *i, const struct found_nic_setting *found, enum verdict verdict,
                          const char *text, bool due) {
        struct link l = { .index = 2, .name = "eth0", .driver = "gve" };
        struct finding f;

        intent_judge_nic_setting(i, &l, found, &f);
        ASSERT_EQ(f.verdict, verdict);
        ASSERT_STREQ(f.found, text);
        ASSERT_TRUE(f.verdict == VERDICT_OK || f.reason[0] || f.remedy[0]);
        ASSERT_EQ(nic_setting_is_due(i, found), due);
}

static void test_nic_setting_verdicts(void) {
        struct intent i = { .nic_settings = { { NIC_FEATURE, "tx-nocache-copy", "", "on", "test" },
                                              { NIC_PRIVATE_FLAG, "a-flag", "gve", "on", "test" } },
                            .n_nic_settings = 2 };
        const struct {
                struct found_nic_setting found;
                enum verdict verdict;
                const char *text;
                bool due;
        } t[] = {
                { { .value = "on" }, VERDICT_OK, "on", false },
                { { .value = "off" }, VERDICT_FAIL, "off", true },
                { { .value = "on", .offer = NIC_FIXED }, VERDICT_OK, "on", false },
                { { .value = "off", .offer = NIC_FIXED }, VERDICT_OK, "off, fixed by gve", false },
                { { .value = "off", .offer = NIC_HELD_BACK }, VERDICT_WARN, "off", false },
                { { .offer = NIC_NOT_OF_KERNEL }, VERDICT_UNKNOWN, "", false },
                { { .error = -EPROTONOSUPPORT }, VERDICT_UNKNOWN, "", false },
                { { .error = -EBADMSG }, VERDICT_UNKNOWN, "", false },
                { { .setting = 1, .offer = NIC_NOT_OF_DRIVER }, VERDICT_OK, "not offered by gve", false },
        };
        struct link l = { .name = "eth0" };
        char subject[64];

        for (size_t k = 0; k < ELEMENTSOF(t); k++)
                judge_setting(&i, &t[k].found, t[k].verdict, t[k].text, t[k].due);
        nic_setting_subject(&i.nic_settings[1], &l, subject);
        ASSERT_STREQ(subject, "eth0 a-flag");
        ASSERT_STREQ(nic_setting_check(i.nic_settings[1].kind), "nic.private_flag");
}

/* pfifo_fast goes by the NIC's own number, which no qdisc shows. */
static void test_short_queue_of_a_nic(void) {
        struct qdisc q[] = { { .index = 2, .kind = "mq", .root = true, .drops = 7 },
                             { .index = 2, .kind = "pfifo_fast" } };
        const struct qdisc_table t = { q, ELEMENTSOF(q) };
        struct link l = { .index = 2, .name = "eth0", .queue = 1000 };
        struct finding f;

        ASSERT_TRUE(nic_qdisc_judge(&t, &l, &f) && f.verdict == VERDICT_OK);
        l.queue = 2;
        ASSERT_TRUE(nic_qdisc_judge(&t, &l, &f) && f.verdict == VERDICT_WARN);
        ASSERT_STREQ(f.subject, "eth0");
        ASSERT_STREQ(f.found, "pfifo_fast, txqueuelen 2");
        ASSERT_TRUE(strstr(f.reason, "it dropped 7 so far") != NULL);
        ASSERT_STREQ(f.remedy, "sudo ip link set dev eth0 txqueuelen 1000");
        (void) snprintf(q[1].kind, sizeof(q[1].kind), "fq_codel");
        ASSERT_TRUE(nic_qdisc_judge(&t, &l, &f) && f.verdict == VERDICT_OK);
}

/* Somebody set noqueue on hardware, or took the discipline of one of its queues away. */
static void test_bare_queue_of_a_nic(void) {
        struct qdisc q[] = { { .index = 2, .kind = "noqueue", .root = true } };
        const struct qdisc_table t = { q, ELEMENTSOF(q) };
        struct link l = { .index = 2, .name = "eth0", .queue = 1000 };
        struct finding f;

        ASSERT_TRUE(nic_qdisc_judge(&t, &l, &f) && f.verdict == VERDICT_OK); /* the driver's will */
        q[0].handle = 0x80010000;
        ASSERT_TRUE(nic_qdisc_judge(&t, &l, &f) && f.verdict == VERDICT_WARN);
        ASSERT_STREQ(f.found, "noqueue");
        ASSERT_STREQ(f.remedy, "sudo tc qdisc del dev eth0 root");
        (void) snprintf(l.kind, sizeof(l.kind), "veth");
        ASSERT_TRUE(nic_qdisc_judge(&t, &l, &f) && f.verdict == VERDICT_OK);
        (void) snprintf(q[0].kind, sizeof(q[0].kind), "mq");
        ASSERT_TRUE(nic_qdisc_judge(&t, &l, &f) && f.verdict == VERDICT_WARN);
        ASSERT_STREQ(f.found, "mq, queues without a discipline: 1");
}

/* What a VLAN on a bond sends leaves by the bond's ports; what containers send by a bridge is their own. */
static void test_what_carries(void) {
        struct link links[] = {
                { .index = 2, .name = "eth0", .master = 4 },
                { .index = 3, .name = "eth1" },
                { .index = 4, .name = "bond0", .kind = "bond" },
                { .index = 5, .name = "bond0.7", .kind = "vlan", .lower = 4 },
                { .index = 6, .name = "br0", .kind = "bridge" },
                { .index = 7, .name = "vethx", .kind = "veth", .master = 6, .lower = 3,
                  .peer_elsewhere = true },
        };
        static const struct {
                const char *nics, *carry;
        } cases[] = { { "bond0.7", "eth0 bond0 bond0.7" }, { "bond0", "eth0 bond0" }, { "eth1", "eth1" },
                      { "br0", "br0" }, { "vethx", "vethx" } };
        struct link_table t = { links, ELEMENTSOF(links) };

        for (size_t k = 0; k < t.n; k++) {
                links[k].arp_type = ARPHRD_ETHER;
                links[k].address_len = 6;
        }
        for (size_t n = 0; n < ELEMENTSOF(cases); n++) {
                struct intent i = { 0 };
                char carry[128] = "";

                (void) snprintf(i.nics, sizeof(i.nics), "%s", cases[n].nics);
                for (size_t k = 0; k < t.n; k++)
                        if (intent_carries_data(&i, &t, &links[k]))
                                text_append(carry, sizeof(carry), " ", "%s", links[k].name);
                ASSERT_STREQ(carry, cases[n].carry);
        }
}

TEST_MAIN(test_nic_setting_verdicts, test_short_queue_of_a_nic, test_bare_queue_of_a_nic, test_what_carries,
          test_which_nics, test_named_nics, test_stated_mtu, test_reading_sysctls_and_parameters,
          test_mtu_rule, test_mtu_verdicts, test_mtu_with_xdp, test_sysctl_verdicts, test_sysctl_names)
