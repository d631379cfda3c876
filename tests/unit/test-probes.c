/* SPDX-License-Identifier: Apache-2.0 */
/* Each probe on a good machine, and on machines where what it reads is missing, garbage or huge. */
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>

#include "nic_setting.h"
#include "probe-support.h"

static struct intent intent_v6e(void) {
        return (struct intent) {
                .profile = "v6e",
                .mtu = 8896,
                .mtu_source = "test",
                .network_mtu = 8896,
                .network_mtu_source = "test",
                .sysctls = { { "net.ipv4.tcp_rmem", "4096 41943040 314572800", "test" } },
                .n_sysctls = 1,
                .rto_min = 5 * USEC_PER_MSEC,
        };
}

static void copy_to(const struct scratch *s, const char *fixture, const char *name) {
        char path[512], buf[8192];
        FILE *in = fopen(fixture, "r"), *out;
        size_t n;

        ASSERT_TRUE(in != NULL);
        n = fread(buf, 1, sizeof(buf), in);
        ASSERT_TRUE(n > 0 && n < sizeof(buf));
        ASSERT_OK(fclose(in));
        scratch_path(s, name, path);
        out = fopen(path, "w");
        ASSERT_TRUE(out && fwrite(buf, 1, n, out) == n);
        ASSERT_OK(fclose(out));
}

static void copy_dump(const struct scratch *s, const char *fixture) {
        copy_to(s, fixture, "netlink/links");
}

static void table(void) {
        static const char *const names[] = {
                "tpu", "owners", "lockfile", "nic", "sysctl", "rp_filter", "route", "names",
                "daemon", "config", "memory", "disk", "clock", "thp",
                "limits", "cmdline", "proxy", "tpu_logs", "tcmalloc", "fingerprint",
        }; /* in the order of probes.def */

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                ASSERT_STREQ(probe_table[i]->name, names[i]);
                ASSERT_TRUE(probe_find(names[i]) == probe_table[i]);
                ASSERT_TRUE(probe_table[i]->interval > 0 && probe_table[i]->timeout > 0 &&
                            probe_table[i]->summary);
        }
        ASSERT_TRUE(probe_table[ELEMENTSOF(names)] == NULL);
        ASSERT_TRUE(probe_find("nothing") == NULL);
}

/* A root without anything: every probe answers UNKNOWN, none fails, none is silent. */
static void empty_machine(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct intent intent = intent_v6e();
        const struct probe_context with = { .intent = &intent, .chips_wanted = 4, .chips_source = "test" },
                                   without = { 0 };

        for (size_t i = 0; probe_table[i]; i++)
                for (size_t k = 0; k < 2; k++) {
                        _cleanup_collected_ struct collected c;

                        (void) probe(s.path, probe_table[i]->name, k ? &with : &without, &c);
                        ASSERT_TRUE(c.findings.n > 0);
                        for (size_t j = 0; j < c.findings.n; j++) {
                                ASSERT_EQ(c.findings.items[j].verdict, VERDICT_UNKNOWN);
                                ASSERT_TRUE(c.findings.items[j].reason[0] != '\0');
                        }
                }
}

/* Of what its own name leads to, the first answer counts. */
static void own_name(void) {
        static const struct {
                const char *leads_to, *found, *reason, *remedy;
                enum verdict verdict;
        } cases[] = {
                { "10.128.0.5\n", "10.128.0.5", "", "", VERDICT_OK },
                { "10.129.0.6\n", "10.129.0.6", "", "", VERDICT_OK },
                { "127.0.1.1\n", "127.0.1.1", "loopback",
                  "printf '\\n10.128.0.5 t1v-n-0a1b2c3d-w-0\\n' | sudo tee -a /etc/hosts", VERDICT_WARN },
                { "::1\n", "::1", "loopback", "sed -Ei 's/(\\s)t1v-n-0a1b2c3d-w-0(\\s|$)/", VERDICT_WARN },
                { "10.128.0.6\n", "10.128.0.6", "not its own",
                  "(\\s|$)/\\1\\2/Ig' /etc/hosts; printf '\\n10.128.0.5", VERDICT_WARN },
                { "\n", "Name or service not known", "knows this host's own name",
                  "printf '\\n10.128.0.5 t1v-n-0a1b2c3d-w-0\\n' | sudo tee -a /etc/hosts", VERDICT_WARN },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got, local;
                const struct finding *f;

                copy_dump(&s, GOOD "/netlink/links");
                copy_to(&s, GOOD "/netlink/addresses", "netlink/addresses");
                scratch_write(&s, "proc/sys/kernel/hostname", "t1v-n-0a1b2c3d-w-0\n");
                scratch_write(&s, "kernel/own-name", cases[i].leads_to);
                ASSERT_OK(probe(s.path, "names", &(struct probe_context) { 0 }, &got));
                f = find(&got, "names", "t1v-n-0a1b2c3d-w-0");
                ASSERT_EQ(f->verdict, cases[i].verdict);
                ASSERT_STREQ(f->found, cases[i].found);
                ASSERT_HAS(f->reason, cases[i].reason);
                ASSERT_HAS(f->remedy, cases[i].remedy);
                scratch_write(&s, "proc/sys/kernel/hostname", "localhost\n");
                scratch_write(&s, "kernel/own-name", "127.0.0.1\n");
                ASSERT_OK(probe(s.path, "names", &(struct probe_context) { 0 }, &local));
                ASSERT_HAS(find(&local, "names", "localhost")->remedy, "sudo hostname -F /etc/hostname");
        }
}

/* The second address is docker0's, not eth1's. */
static void give_to_docker(const struct scratch *s) {
        static _Alignas(struct nlmsghdr) char buf[8192];
        struct nlmsghdr *second;
        char path[512];
        FILE *f;
        size_t n;

        scratch_path(s, "netlink/addresses", path);
        f = fopen(path, "r+");
        ASSERT_TRUE(f != NULL);
        n = fread(buf, 1, sizeof(buf), f);
        second = (void *) (buf + NLMSG_ALIGN(((struct nlmsghdr *) (void *) buf)->nlmsg_len));
        ASSERT_TRUE((char *) second + NLMSG_LENGTH(sizeof(struct ifaddrmsg)) <= buf + n);
        ((struct ifaddrmsg *) NLMSG_DATA(second))->ifa_index = 9;
        rewind(f);
        ASSERT_EQ(fwrite(buf, 1, n, f), n);
        ASSERT_OK(fclose(f));
}

static void own_name_of_a_bridge(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got;
        const struct finding *f;

        copy_dump(&s, GOOD "/netlink/links");
        copy_to(&s, GOOD "/netlink/addresses", "netlink/addresses");
        give_to_docker(&s);
        scratch_write(&s, "proc/sys/kernel/hostname", "h0\n");
        scratch_write(&s, "kernel/own-name", "10.129.0.6\n");
        ASSERT_OK(probe(s.path, "names", &(struct probe_context) { 0 }, &got));
        f = find(&got, "names", "h0");
        ASSERT_EQ(f->verdict, VERDICT_WARN);
        ASSERT_HAS(f->reason, "a bridge for containers");
        ASSERT_HAS(f->remedy, "10.128.0.5 h0");
}

static void nic_good(void) {
        struct intent intent = intent_v6e();
        const struct probe_context c = { .intent = &intent };
        _cleanup_collected_ struct collected got, named;

        ASSERT_OK(probe(GOOD, "nic", &c, &got));
        ASSERT_EQ(got.findings.n, 11); /* five of eth0 and of eth1, and the count; neither lo nor docker0 */
        ASSERT_EQ(finding_list_worst(&got.findings), VERDICT_OK);
        ASSERT_STREQ(find(&got, "nic.mtu", "eth1")->found, "8896");
        ASSERT_HAS(got.samples, "tpu.nic.mtu{network.interface.name=eth0} 8896\n");
        ASSERT_HAS(got.samples, "hw.network.up{network.interface.name=eth1,hw.id=eth1} 1\n");
        (void) snprintf(intent.nics, sizeof(intent.nics), "eth* eth9");
        ASSERT_OK(probe(GOOD, "nic", &c, &named));
        ASSERT_EQ(named.findings.n, 12);
        ASSERT_HAS(find(&named, "nic.count", "Nics=")->reason, "no such NIC is here; there are: eth0,eth1");
}

static void nic_drift(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct intent intent = intent_v6e();
        const struct probe_context c = { .intent = &intent }, without = { 0 };
        _cleanup_collected_ struct collected got, got_without;

        copy_dump(&s, GOOD "/netlink/links.drift");
        ASSERT_OK(probe(s.path, "nic", &c, &got));
        ASSERT_EQ(find(&got, "nic.mtu", "eth0")->verdict, VERDICT_OK);
        ASSERT_EQ(find(&got, "nic.mtu", "eth1")->verdict, VERDICT_FAIL);
        ASSERT_STREQ(find(&got, "nic.mtu", "eth1")->found, "1460");
        ASSERT_STREQ(find(&got, "nic.mtu", "eth1")->wanted, "8896");
        ASSERT_TRUE(find(&got, "nic.mtu", "eth1")->remedy[0] != '\0');
        ASSERT_OK(probe(s.path, "nic", &without, &got_without));
        ASSERT_EQ(find(&got_without, "nic.mtu", "eth1")->verdict, VERDICT_UNKNOWN);
}

static void nic_garbage(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        const struct probe_context c = { 0 };
        _cleanup_collected_ struct collected got, queues;

        scratch_write(&s, "netlink/links", "this is no netlink dump, whatever it says");
        ASSERT_TRUE(probe(s.path, "nic", &c, &got) < 0);
        ASSERT_EQ(got.findings.n, 1);
        ASSERT_EQ(find(&got, "nic", "")->verdict, VERDICT_UNKNOWN);
        copy_dump(&s, GOOD "/netlink/links");
        scratch_write(&s, "netlink/qdiscs", "nor is this");
        ASSERT_OK(probe(s.path, "nic", &c, &queues));
        ASSERT_EQ(find(&queues, "nic.qdisc", "")->verdict, VERDICT_UNKNOWN);
}

static struct intent intent_nic_settings(void) {
        return (struct intent) {
                .profile = "v6e",
                .nic_settings = { { NIC_FEATURE, "tx-nocache-copy", "", "on", "test" },
                                  { NIC_FEATURE, "rx-gro", "", "off", "test" },
                                  { NIC_FEATURE, "rx-lro", "", "on", "test" },
                                  { NIC_PRIVATE_FLAG, "enable-max-rx-buffer-size", "gve", "on", "test" },
                                  { NIC_PRIVATE_FLAG, "no-such-flag", "gve", "on", "test" },
                                  { NIC_PRIVATE_FLAG, "enable-header-split", "mlx5_core", "on", "test" } },
                .n_nic_settings = 6,
        };
}

static void nic_settings_good(void) {
        struct intent intent = intent_nic_settings();
        const struct probe_context c = { .intent = &intent };
        _cleanup_collected_ struct collected got;

        ASSERT_OK(probe(GOOD, "nic", &c, &got));
        ASSERT_EQ(got.findings.n, 11 + 10); /* six of eth0 and of eth1: neither is an mlx5_core */
        ASSERT_EQ(find(&got, "nic.feature", "eth1 tx-nocache-copy")->verdict, VERDICT_OK);
        ASSERT_EQ(find(&got, "nic.feature", "eth0 rx-gro")->verdict, VERDICT_FAIL);
        ASSERT_STREQ(find(&got, "nic.feature", "eth0 rx-gro")->remedy, "sudo tpu-netcfg --once");
        ASSERT_STREQ(find(&got, "nic.feature", "eth0 rx-lro")->found, "off, fixed by gve");
        ASSERT_EQ(find(&got, "nic.private_flag", "eth0 enable-max-rx-buffer-size")->verdict, VERDICT_OK);
        ASSERT_STREQ(find(&got, "nic.private_flag", "eth1 no-such-flag")->found, "not offered by gve");
}

/* The NICs are known, and what is recorded of their settings is missing, garbage or far too much. */
static void nic_settings_bad(void) {
        static const char *const contents[] = { NULL, "", "no answer of a kernel", "huge" };
        struct intent intent = intent_nic_settings();
        const struct probe_context c = { .intent = &intent }, without = { 0 };
        _cleanup_free_ char *huge = malloc(2 << 20);

        ASSERT_TRUE(huge != NULL);
        memset(huge, 7, (2 << 20) - 1);
        huge[(2 << 20) - 1] = '\0';
        for (size_t k = 0; k < ELEMENTSOF(contents); k++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got, got_without;

                copy_dump(&s, GOOD "/netlink/links");
                if (contents[k])
                        scratch_write(&s, "netlink/features",
                                      streq(contents[k], "huge") ? huge : contents[k]);
                ASSERT_OK(probe(s.path, "nic", &c, &got));
                ASSERT_EQ(find(&got, "nic.feature", "eth0 tx-nocache-copy")->verdict, VERDICT_UNKNOWN);
                ASSERT_TRUE(find(&got, "nic.feature", "eth0 tx-nocache-copy")->reason[0] != '\0');
                ASSERT_OK(probe(s.path, "nic", &without, &got_without));
                for (size_t n = 0; n < got_without.findings.n; n++)
                        ASSERT_FALSE(streq(got_without.findings.items[n].check, "nic.feature"));
        }
}

static void sysctls(void) {
        static const struct {
                const char *value;
                enum verdict verdict;
        } cases[] = {
                { "4096\t41943040\t314572800\n", VERDICT_OK },
                { "4096\t131072\t6291456\n", VERDICT_FAIL },
                { "", VERDICT_FAIL },
                { "\033[2J4096", VERDICT_FAIL },
        };
        struct intent intent = intent_v6e();
        const struct probe_context c = { .intent = &intent };
        static char huge[1 << 16];

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;

                scratch_write(&s, "proc/sys/net/ipv4/tcp_rmem", cases[i].value);
                ASSERT_OK(probe(s.path, "sysctl", &c, &got));
                ASSERT_EQ(find(&got, "sysctl", "net.ipv4.tcp_rmem")->verdict, cases[i].verdict);
                ASSERT_TRUE(strchr(got.findings.items[0].found, '\033') == NULL);
                if (cases[i].verdict == VERDICT_FAIL)
                        ASSERT_STREQ(got.findings.items[0].remedy,
                                     "sudo tpu-netcfg --once");
        }
        memset(huge, '1', sizeof(huge) - 1);
        {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;

                scratch_write(&s, "proc/sys/net/ipv4/tcp_rmem", huge);
                ASSERT_OK(probe(s.path, "sysctl", &c, &got));
                ASSERT_EQ(got.findings.items[0].verdict, VERDICT_UNKNOWN);
        }
}

static void memory_sizes(void) {
        const struct probe_context c = { 0 };
        _cleanup_collected_ struct collected got;

        ASSERT_OK(probe(GOOD, "memory", &c, &got));
        ASSERT_EQ(find(&got, "memory.available", "")->verdict, VERDICT_OK);
        ASSERT_STREQ(got.findings.items[0].found, "704.0 GiB of 720.0 GiB available");
}

static void memory_odd(void) {
        static const struct {
                const char *meminfo;
                enum verdict verdict;
        } cases[] = {
                { "MemTotal: 1000000 kB\nMemAvailable: 50000 kB\n", VERDICT_OK },
                { "MemTotal: 1000000 kB\nMemAvailable: 49000 kB\n", VERDICT_WARN },
                { "MemTotal: 1000000 kB\nMemAvailable: 0 kB\n", VERDICT_WARN },
                { "MemTotal: 1000000 kB\nMemAvailable: 1000001 kB\n", VERDICT_UNKNOWN },
                { "MemTotal: 1000000 kB\n", VERDICT_UNKNOWN },
                { "MemTotal: 1000000\nMemAvailable: 50000 kB\n", VERDICT_UNKNOWN },
                { "MemTotal: -5 kB\nMemAvailable: 1 kB\n", VERDICT_UNKNOWN },
                { "MemTotal: 99999999999999999999999 kB\nMemAvailable: 1 kB\n", VERDICT_UNKNOWN },
                { "MemTotal: 0 kB\nMemAvailable: 0 kB\n", VERDICT_UNKNOWN },
                { "XMemTotal: 10 kB\nMemAvailable: 5 kB\n", VERDICT_UNKNOWN },
                { "garbage", VERDICT_UNKNOWN },
                { "", VERDICT_UNKNOWN },
        };
        const struct probe_context c = { 0 };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;

                scratch_write(&s, "proc/meminfo", cases[i].meminfo);
                ASSERT_OK(probe(s.path, "memory", &c, &got));
                if (got.findings.items[0].verdict != cases[i].verdict)
                        test_fail(__FILE__, __LINE__, "case %zu: %s", i,
                                  verdict_name(got.findings.items[0].verdict));
        }
}

static void tpu_good(void) {
        const struct probe_context c = { .chips_wanted = 4, .chips_source = "test" };
        _cleanup_collected_ struct collected got;

        ASSERT_OK(probe(GOOD, "tpu", &c, &got));
        ASSERT_EQ(got.findings.n,
                  3); /* the NVMe disk and both gVNICs of the same vendor are no chips and no news */
        ASSERT_STREQ(find(&got, "tpu.access", "")->found, "4 of 4 nodes open to all users");
        ASSERT_STREQ(find(&got, "tpu.chips", "")->found, "4 v6e (32 GiB of HBM each)");
        ASSERT_STREQ(find(&got, "tpu.nodes", "")->found, "4 of 4 chips");
        ASSERT_EQ(finding_list_worst(&got.findings), VERDICT_OK);
        ASSERT_STREQ(got.samples, "tpu.chips.present{} 4\ntpu.chips.wanted{} 4\ntpu.chips.usable{} 4\n");
}

static void tpu_counts(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        static const struct {
                struct probe_context context;
                enum verdict verdict;
        } cases[] = {
                { { .chips_wanted = 2, .chips_source = "test" }, VERDICT_OK },
                { { .chips_wanted = 4, .chips_source = "test" }, VERDICT_FAIL },
                { { .chips_wanted = 1 }, VERDICT_WARN },
                { { .chips_source = "test" }, VERDICT_WARN }, /* none wanted */
                { { 0 }, VERDICT_OK },
        };

        add_device(&s, "0000:00:04.0", "0x1ae0", "0x006f", "0x120000", "vfio-pci");
        add_device(&s, "0000:00:05.0", "0x1ae0", "0x006f", "0x120000", NULL);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_collected_ struct collected got;

                ASSERT_OK(probe(s.path, "tpu", &cases[i].context, &got));
                ASSERT_EQ(find(&got, "tpu.chips", "")->verdict, cases[i].verdict);
                ASSERT_EQ(find(&got, "tpu.nodes", "")->verdict, VERDICT_FAIL);
                ASSERT_HAS(find(&got, "tpu.nodes", "")->reason, "0000:00:05.0");
        }
}

/* tpu7x shows two functions a chip; a v4 chip is opened by an accel node; another vendor's accel node is
 * nobody's. */
static void tpu_generations(void) {
        _cleanup_scratch_ struct scratch pairs = scratch_new(), v4 = scratch_new();
        const struct probe_context c = { .chips_wanted = 2 };
        _cleanup_collected_ struct collected got, got4;

        add_device(&pairs, "0000:00:04.0", "0x1ae0", "0x0076", "0x120000", "vfio-pci");
        add_device(&pairs, "0000:00:04.1", "0x1ae0", "0x0076", "0x120000", "vfio-pci");
        add_device(&pairs, "0000:00:05.0", "0x1ae0", "0x0076", "0x120000", "vfio-pci");
        add_device(&pairs, "0000:00:05.1", "0x1ae0", "0x0076", "0x120000", NULL);
        ASSERT_OK(probe(pairs.path, "tpu", &c, &got));
        ASSERT_STREQ(find(&got, "tpu.chips", "")->found, "2 tpu7x (192 GiB of HBM each)");
        ASSERT_STREQ(find(&got, "tpu.nodes", "")->found, "1 of 2 chips");

        add_device(&v4, "0000:00:04.0", "0x1ae0", "0x005e", "0x120000", NULL);
        add_device(&v4, "0000:00:05.0", "0x1ae0", "0x005e", "0x120000", NULL);
        add_device(&v4, "0000:00:06.0", "0x10de", "0x2330", "0x030200", "nvidia");
        scratch_write(&v4, "sys/class/accel/accel0/device/uevent",
                      "PCI_ID=1AE0:005E\nPCI_SLOT_NAME=0000:00:04.0\nMODALIAS=x\n");
        scratch_write(&v4, "sys/class/accel/accel1/device/uevent", "PCI_SLOT_NAME=0000:00:06.0\n");
        ASSERT_OK(probe(v4.path, "tpu", &c, &got4));
        ASSERT_STREQ(find(&got4, "tpu.chips", "")->found, "2 v4 (32 GiB of HBM each)");
        ASSERT_STREQ(find(&got4, "tpu.nodes", "")->found, "1 of 2 chips");
        ASSERT_HAS(find(&got4, "tpu.nodes", "")->reason, "0000:00:05.0");
}

static void tpu_strange(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        const struct probe_context c = { .chips_wanted = 1 };
        _cleanup_collected_ struct collected got;

        add_device(&s, "0000:00:01.0", "0x15b3", "0xa2d6", "0x020000",
                   "vfio-pci"); /* a BlueField bound to vfio */
        add_device(&s, "0000:00:04.0", "0x1ae0", "0x006f", "0x120000", "vfio-pci");
        add_device(&s, "0000:00:05.0", "0x1ae0", "0x0999", "0x120000",
                   "vfio-pci");                                               /* a generation to come */
        add_device(&s, "0000:00:06.0", "0x1ae0", "0x0998", "0x020000", NULL); /* some NIC to come */
        add_device(&s, "0000:00:03.0", "0x1ae0", "0xabcd", "0x120000", NULL); /* known not to be a TPU */
        add_device(&s, "0000:00:07.0", "garbage", "0x006f", "0x120000", NULL);
        add_device(&s, "0000:00:08.0", "0x1ae0", NULL, "0x120000", NULL);
        add_device(&s, "0000:00:09.0", "0x1ae0", "0xfffff006f", "0x120000", NULL);
        ASSERT_OK(probe(s.path, "tpu", &c, &got));
        ASSERT_STREQ(find(&got, "tpu.chips", "")->found, "1 v6e (32 GiB of HBM each)");
        ASSERT_EQ(find(&got, "tpu.unknown", "0000:00:05.0")->verdict, VERDICT_WARN);
        ASSERT_HAS(find(&got, "tpu.unknown", "0000:00:05.0")->found,
                   "1 accelerator of vendor 0x1ae0, device 0x0999");
        ASSERT_EQ(find(&got, "tpu.pci", "0000:00:07.0")->verdict, VERDICT_UNKNOWN);
        ASSERT_HAS(find(&got, "tpu.pci", "0000:00:07.0")->found, "3 devices");
}

static void tpu_huge(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        const struct probe_context c = { .chips_wanted = 4 };
        _cleanup_collected_ struct collected got;

        for (unsigned i = 0; i < 100; i++) {
                char address[32];

                (void) snprintf(address, sizeof(address), "0000:%02x:00.0", i);
                add_device(&s, address, "0x1ae0", "0x006f", "0x120000", NULL);
        }
        ASSERT_TRUE(probe(s.path, "tpu", &c, &got) < 0);
        ASSERT_EQ(find(&got, "tpu", "")->verdict, VERDICT_UNKNOWN);
}

TEST_MAIN(table, empty_machine, own_name, own_name_of_a_bridge, nic_good, nic_drift, nic_garbage,
          nic_settings_good, nic_settings_bad, sysctls,
          memory_sizes, memory_odd, tpu_good, tpu_counts, tpu_generations, tpu_strange, tpu_huge)
