/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if_arp.h>
#include <sys/stat.h>

#include "intent.h"
#include "machine.h"
#include "nic_setting.h"
#include "profile.h"
#include "scratch.h"
#include "test.h"

#define RMEM "[Sysctl net.ipv4.tcp_rmem]\nValue=4096  41943040\t314572800\nSource=docs\n"
/* 100 characters. */
#define TEN "0123456789"
#define TOO_LONG TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define GENERIC "[Mtu]\nValue=8896\nSource=docs\n"

static int load(const struct scratch *s, const char *config, struct intent *ret) {
        _cleanup_host_ struct host h = HOST_NULL;

        ASSERT_OK(host_open(s->path, &h));
        *ret = (struct intent) { 0 };
        return intent_load(&h, config, ret);
}

static void profile(const struct scratch *s, const char *name, const char *text) {
        char path[128];

        (void) snprintf(path, sizeof(path), "usr/lib/tpu-hostd/profiles/%s.conf", name);
        scratch_write(s, path, text);
}

static void identity(const struct scratch *s, const char *text) {
        scratch_write(s, "etc/tpu-hostd/identity.conf.d/10-a.conf", text);
}

static void test_shipped_profiles(void) {
        _cleanup_host_ struct host h = HOST_NULL;
        struct intent i = { 0 };

        ASSERT_OK(host_open(FIXTURES "/netcfg-v6e", &h));
        ASSERT_OK(intent_load(&h, NULL, &i));
        ASSERT_STREQ(i.profile, "v6e");
        ASSERT_STREQ(i.profile_note, "");
        ASSERT_EQ(i.mtu, 8896);
        ASSERT_TRUE(startswith(i.mtu_source, "profile v6e, line 6: "));
        ASSERT_EQ(i.n_sysctls, 7);
        ASSERT_STREQ(i.sysctls[0].name, "net.ipv4.tcp_rmem");
        ASSERT_STREQ(i.sysctls[0].value, "4096 41943040 314572800");
        ASSERT_EQ(i.rto_min, 5 * USEC_PER_MSEC);
        ASSERT_EQ(i.n_parameters, 1);
        ASSERT_TRUE(i.loose_rp_filter);
        ASSERT_EQ(i.network_mtu, 8896);
        ASSERT_STREQ(i.network_mtu_source, "/etc/tpu-hostd/identity.conf.d/10-host.conf:5");
        ASSERT_FALSE(i.observe);
}

/* Every value of every shipped profile is taken: none is refused for its form or its source. */
static void test_every_shipped_profile_is_whole(void) {
        static const char *const names[] = { "v4", "v5e", "v5p", "v6e", "tpu7x" };
        _cleanup_host_ struct host h = HOST_NULL;

        ASSERT_OK(host_open(FIXTURES "/../..", &h));
        for (size_t k = 0; k < ELEMENTSOF(names); k++) {
                struct intent i = { 0 };
                char path[64], text[8192];
                size_t len;

                (void) snprintf(path, sizeof(path), "/netcfg/profiles/%s.conf", names[k]);
                ASSERT_OK(host_read(&h, path, text, sizeof(text), &len));
                ASSERT_OK(profile_parse(path, text, len, &i));
                ASSERT_EQ(i.mtu, 8896);
                ASSERT_EQ(i.n_sysctls, 7);
                ASSERT_EQ(i.rto_min, 5000);
                ASSERT_EQ(i.n_parameters, 1);
                ASSERT_EQ(i.n_nic_settings, 6);
                ASSERT_TRUE(i.source_routing);
                ASSERT_TRUE(strstr(i.source_routing_source, "Google Cloud VPC docs") != NULL);
        }
}

static void test_source_routing(void) {
        static const struct {
                const char *profile, *site;
                bool wanted;
                const char *source;
        } t[] = {
                { "yes", "", true, "profile generic, line 2: docs" },
                { "yes", "[Netcfg]\nSourceRouting=no\n", false, "" },
                { "yes", "[Netcfg]\nSourceRouting=profile\n", true, "profile generic, line 2: docs" },
                { "yes", "[Netcfg]\nSourceRouting=maybe\n", true, "profile generic, line 2: docs" },
                { "no", "", false, "" },
                { "no", "[Netcfg]\nSourceRouting=yes\n", true, "/etc/tpu-hostd/netcfg.conf.d/10-a.conf:2" },
        };

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                struct intent i;
                char text[128];

                (void) snprintf(text, sizeof(text), "[SourceRouting]\nValue=%s\nSource=docs\n", t[k].profile);
                profile(&s, "generic", text);
                scratch_write(&s, "etc/tpu-hostd/netcfg.conf.d/10-a.conf", t[k].site);
                ASSERT_OK(load(&s, NULL, &i));
                ASSERT_EQ(i.source_routing, t[k].wanted);
                if (t[k].wanted)
                        ASSERT_STREQ(i.source_routing_source, t[k].source);
        }
}

/* What the fixtures hold of the package is what is shipped (tests/fixtures/make-machine). */
static void test_fixtures_are_what_is_shipped(void) {
        static const struct {
                const char *fixture, *file;
        } t[] = {
                { "netcfg-v6e", "profiles/v6e.conf" },     { "netcfg-v6e", "profiles/generic.conf" },
                { "machine-v6e-4t", "profiles/v4.conf" },  { "machine-v6e-4t", "profiles/v5e.conf" },
                { "machine-v6e-4t", "profiles/v5p.conf" }, { "machine-v6e-4t", "profiles/v6e.conf" },
                { "machine-v6e-4t", "profiles/tpu7x.conf" }, { "machine-v6e-4t", "profiles/generic.conf" },
                { "machine-v6e-4t", "machines.conf" },
        };
        _cleanup_host_ struct host h = HOST_NULL;

        ASSERT_OK(host_open(FIXTURES "/../..", &h));
        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                char path[128], shipped[8192], copy[8192];

                (void) snprintf(path, sizeof(path), "/netcfg/%s", t[k].file);
                ASSERT_OK(host_read(&h, path, shipped, sizeof(shipped), NULL));
                (void) snprintf(path, sizeof(path), "/tests/fixtures/%s/usr/lib/tpu-hostd/%s", t[k].fixture,
                                t[k].file);
                ASSERT_OK(host_read(&h, path, copy, sizeof(copy), NULL));
                ASSERT_STREQ(copy, shipped);
        }
}

static void test_which_profile(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct intent i;

        ASSERT_EQ(load(&s, NULL, &i), -ENOENT);
        profile(&s, "generic", GENERIC);
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_STREQ(i.profile, "generic");
        ASSERT_TRUE(startswith(i.profile_note, "the accelerator type is not known"));
        identity(&s, "[Identity]\nAcceleratorType=v9x-16\nWorkerId=3\n");
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_STREQ(i.profile, "generic");
        ASSERT_TRUE(strstr(i.profile_note, "v9x-16") != NULL);
        profile(&s, "v9x", RMEM);
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_STREQ(i.profile, "v9x");
        ASSERT_STREQ(i.sysctls[0].value, "4096 41943040 314572800");
        ASSERT_EQ(i.mtu, 0);
        identity(&s, "[Identity]\nAcceleratorType=../../etc/passwd\n");
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_STREQ(i.profile, "generic");
        scratch_write(&s, "etc/tpu-hostd/netcfg.conf.d/10-a.conf", "[Netcfg]\nProfile=v9x\nMode=observe\n");
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_STREQ(i.profile, "v9x");
        ASSERT_TRUE(i.observe);
        scratch_write(&s, "etc/tpu-hostd/netcfg.conf.d/10-a.conf",
                      "[Netcfg]\nProfile=none-such\nMode=perhaps\n");
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_STREQ(i.profile, "generic");
        ASSERT_TRUE(strstr(i.profile_note, "none-such") != NULL);
        ASSERT_FALSE(i.observe);
        scratch_write(&s, "etc/tpu-hostd/profiles/generic.conf",
                      RMEM); /* the site's own masks the vendor's */
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_EQ(i.n_sysctls, 1);
}

#define PCI "sys/bus/pci/devices/"

/* Without a word in any file: what the chips are. */
static void test_profile_by_chips(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct intent i;

        profile(&s, "generic", GENERIC);
        profile(&s, "v9x", RMEM);
        scratch_write(
                &s, "usr/lib/tpu-hostd/machines.conf",
                "[Chip 0x1234]\nGeneration=v9x\nSource=docs\n[Chip 0x5678]\nGeneration=v8x\nSource=docs\n"
                "[Chip 0x9999]\nGeneration=v9x\n");
        scratch_write(&s, PCI "0000:00:04.0/vendor", "0x8086\n");
        scratch_write(&s, PCI "0000:00:04.0/device", "0x1234\n");
        scratch_write(&s, PCI "0000:00:05.0/vendor", "0x1ae0\n");
        scratch_write(&s, PCI "0000:00:05.0/device", "0x9999\n"); /* a section without a source is none */
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_STREQ(i.profile, "generic");
        scratch_write(&s, PCI "0000:00:05.0/device", "0x1234\n");
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_STREQ(i.profile, "v9x");
        scratch_write(&s, PCI "0000:00:06.0/vendor", "0x1ae0\n");
        scratch_write(&s, PCI "0000:00:06.0/device", "0x5678\n"); /* two kinds: neither */
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_STREQ(i.profile, "generic");
        identity(&s, "[Identity]\nAcceleratorType=v9x-16\n");
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_STREQ(i.profile, "v9x");
}

static void test_machines(void) {
        static const struct {
                uint16_t device;
                const char *generation;
                uint32_t hbm_gib, functions;
        } chips[] = { { 0x5e, "v4", 32, 1 },    { 0x62, "v5p", 95, 1 },   { 0x63, "v5e", 16, 1 },
                      { 0x6f, "v6e", 32, 1 },   { 0x76, "tpu7x", 192, 2 }, { 0x27, "v2/v3", 0, 1 },
                      { 0x83, "tpu8i", 0, 1 }, { 0x7c, "tpu8t", 0, 1 } };
        static const char *const unknown[] = { "ct6e-standard-2t", "ct6e-standard-", "n1-standard-16", "", "-4t",
                                               "ct6e-standardx-4t", "ct6e-standard-4t]",
                                               "a-name-that-is-far-too-long-for-any-machine-type" };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL, shipped = HOST_NULL;
        struct machine_chip chip;
        struct machine_type type;
        char text[8192];

        ASSERT_OK(host_open(FIXTURES "/../..", &shipped));
        ASSERT_OK(host_read(&shipped, "/netcfg/machines.conf", text, sizeof(text), NULL));
        scratch_write(&s, "usr/lib/tpu-hostd/machines.conf", text);
        ASSERT_OK(host_open(s.path, &h));
        for (size_t k = 0; k < ELEMENTSOF(chips); k++) {
                ASSERT_OK(machine_chip(&h, chips[k].device, &chip));
                ASSERT_STREQ(chip.generation, chips[k].generation);
                ASSERT_EQ(chip.hbm_gib, chips[k].hbm_gib);
                ASSERT_EQ(chip.functions, chips[k].functions);
                ASSERT_TRUE(chip.source[0] != '\0');
        }
        ASSERT_EQ(machine_chip(&h, 0x42, &chip), -ENOENT); /* gVNIC */
        ASSERT_OK(machine_type(&h, "ct6e-standard-4t", &type));
        ASSERT_EQ(type.chips, 4);
        ASSERT_EQ(type.nics, 2);
        ASSERT_OK(machine_type(&h, "ct5lp-hightpu-8t", &type));
        ASSERT_EQ(type.chips, 8);
        ASSERT_EQ(type.nics, 0);
        for (size_t k = 0; k < ELEMENTSOF(unknown); k++)
                ASSERT_EQ(machine_type(&h, unknown[k], &type), -ENOENT);
        scratch_write(&s, "usr/lib/tpu-hostd/machines.conf", "[Machine ct6e-standard-1t]\nGeneration=v6e\nChips=1\n");
        ASSERT_EQ(machine_type(&h, "ct6e-standard-1t", &type), -ENOENT); /* no source: refused */
        ASSERT_EQ(machine_type(&shipped, "ct6e-standard-1t", &type), -ENOPKG);
}

static void test_rto_min(void) {
        static const struct {
                const char *mode;
                bool has_sysctl;
                bool by_sysctl;
        } t[] = {
                { "auto", true, true },     { "auto", false, false },    { "routes", true, false },
                { "routes", false, false }, { "sysctl", false, true },   { "nonsense", true, true },
        };

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                struct intent i;
                char text[64];

                profile(&s, "generic", "[RtoMin]\nValue=5ms\nSource=docs\n");
                (void) snprintf(text, sizeof(text), "[Netcfg]\nRtoMin=%s\n", t[k].mode);
                scratch_write(&s, "etc/tpu-hostd/netcfg.conf.d/10-a.conf", text);
                if (t[k].has_sysctl)
                        scratch_write(&s, "proc/sys/net/ipv4/tcp_rto_min_us", "200000\n");
                ASSERT_OK(load(&s, NULL, &i));
                ASSERT_EQ(i.rto_min, t[k].by_sysctl ? 0 : 5000);
                ASSERT_EQ(i.n_sysctls, t[k].by_sysctl);
                if (t[k].by_sysctl)
                        ASSERT_STREQ(i.sysctls[0].value, "5000");
        }
}

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
}

static void test_given_file(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct intent i;
        char path[128];

        profile(&s, "generic", GENERIC);
        profile(&s, "v6e", GENERIC RMEM);
        identity(&s, "[Network]\nMtu=1500\n");
        scratch_write(&s, "my.conf",
                      "[Netcfg]\nMode=observe\n[Identity]\nAcceleratorType=v6e-16\n[Network]\nMtu=1460\n");
        (void) snprintf(path, sizeof(path), "%s/my.conf", s.path);
        ASSERT_OK(load(&s, path, &i));
        ASSERT_STREQ(i.profile, "v6e");
        ASSERT_TRUE(i.observe);
        ASSERT_EQ(i.network_mtu, 1460);
        (void) snprintf(path, sizeof(path), "%s/none.conf", s.path);
        ASSERT_EQ(load(&s, path, &i), -ENOENT);
}

static void test_network_mtu_bounds(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        static const char *const bad[] = { "1299", "8897", "-1", "8896x", "", "99999999999" };
        struct intent i;
        char text[64];

        profile(&s, "generic", GENERIC);
        for (size_t k = 0; k < ELEMENTSOF(bad); k++) {
                (void) snprintf(text, sizeof(text), "[Network]\nMtu=%s\n", bad[k]);
                identity(&s, text);
                ASSERT_OK(load(&s, NULL, &i));
                ASSERT_EQ(i.network_mtu, 0);
        }
}

/* Each of these sections is refused by itself; what follows it stands. */
static void test_refused_values(void) {
        static const char *const bad[] = {
                "[Sysctl net.ipv4.tcp_sack]\nValue=1\n",
                "[Sysctl net.ipv4.tcp_sack]\nSource=docs\n",
                "[Sysctl net.ipv4.tcp_sack]\nValue=1\nSource=\n",
                "[Sysctl net.ipv4.tcp_sack]\nValue=$(reboot)\nSource=docs\n",
                "[Sysctl net..ipv4]\nValue=1\nSource=docs\n",
                "[Sysctl ../../etc/passwd]\nValue=1\nSource=docs\n",
                "[Sysctl ]\nValue=1\nSource=docs\n",
                "[Sysctl "
                "net.ipv4.a_name_far_too_long_for_the_ini_reader_to_give_back_whole]\nValue=1\nSource="
                "docs\n",
                "[Sysctl net.ipv4.tcp_sack]\nValue=1\nSource=" TOO_LONG "\n",
                "[Mtu]\nValue=65535\nSource=docs\n",
                "[Mtu]\nValue=8896\n",
                "[Route]\nValue=1\nSource=docs\n",
                "[RtoMin]\nValue=5\nSource=docs\n",
                "[RtoMin]\nValue=2s\nSource=docs\n",
                "[RtoMin]\nValue=5ms\n",
                "[RpFilter]\nValue=off\nSource=docs\n",
                "[Feature tx-nocache-copy]\nValue=1\nSource=docs\n",
                "[Feature tx-nocache-copy]\nValue=on\n",
                "[Feature ]\nValue=on\nSource=docs\n",
                "[Feature a b]\nValue=on\nSource=docs\n",
                "[Feature a;reboot]\nValue=on\nSource=docs\n",
                "[Feature a-name-of-thirty-two-characters-]\nValue=on\nSource=docs\n",
                "[PrivateFlag enable-max-rx-buffer-size]\nValue=on\nSource=docs\n",
                "[PrivateFlag  gve]\nValue=on\nSource=docs\n",
                "[PrivateFlag gve x y]\nValue=on\nSource=docs\n",
                "[PrivateFlag a-driver-of-16-ch x]\nValue=on\nSource=docs\n",
                "[Link gso_max_segs]\nValue=65535\nSource=docs\n",
                "[Link gso_max_size]\nValue=524281\nSource=docs\n",
                "[Link gso_max_size]\nValue=on\nSource=docs\n",
                "[Link gso_max_size]\nValue=64K\nSource=docs\n",
                "[SourceRouting]\nValue=no\nSource=docs\n",
                "[Parameter ../../x]\nValue=1\nSource=docs\n",
                "Value=1\nSource=docs\n",
        };

        for (size_t k = 0; k < ELEMENTSOF(bad); k++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                struct intent i;
                char text[1024];

                (void) snprintf(text, sizeof(text), "%s%s", bad[k], RMEM);
                profile(&s, "generic", text);
                ASSERT_OK(load(&s, NULL, &i));
                ASSERT_EQ(i.mtu, 0);
                ASSERT_EQ(i.rto_min, 0);
                ASSERT_EQ(i.n_parameters + i.loose_rp_filter + i.n_nic_settings + i.source_routing, 0);
                ASSERT_EQ(i.n_sysctls, 1);
                ASSERT_STREQ(i.sysctls[0].name, "net.ipv4.tcp_rmem");
        }
}

static void test_the_first_of_two_stands(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct intent i;

        profile(&s, "generic",
                GENERIC RMEM
                "[Mtu]\nValue=1500\nSource=docs\n[Sysctl net.ipv4.tcp_rmem]\nValue=1\nSource=docs\n");
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_EQ(i.mtu, 8896);
        ASSERT_EQ(i.n_sysctls, 1);
        ASSERT_STREQ(i.sysctls[0].value, "4096 41943040 314572800");
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
        judge(8896, 8896, 1460, 65535, VERDICT_FAIL, "tpu-netcfg --once");
        judge(8896, 1460, 1460, 65535, VERDICT_FAIL, "gcloud compute networks update NETWORK --mtu=8896");
        judge(8896, 1460, 8896, 65535, VERDICT_FAIL, "gcloud");
        judge(8896, 8896, 1500, 1500, VERDICT_WARN, "GVNIC");
        judge(8896, 0, 1460, 65535, VERDICT_UNKNOWN, "gcloud compute networks describe NETWORK");
        judge(0, 8896, 1460, 65535, VERDICT_OK, "");
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
        ASSERT_TRUE(strstr(f.remedy, "systemd-tmpfiles") != NULL);
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

static void test_nic_settings(void) {
        static const char text[] = "[Feature tx-nocache-copy]\nValue=on\nSource=docs\n"
                                   "[Feature rx-gro]\nValue=off\nSource=docs\n"
                                   "[Feature rx-gro]\nValue=on\nSource=docs\n" /* the first stands */
                                   "[PrivateFlag gve some-flag]\nValue=on\nSource=docs\n"
                                   "[Link gro_ipv4_max_size]\nValue=65536\nSource=docs\n" RMEM;
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct intent i;

        profile(&s, "generic", text);
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_EQ(i.n_nic_settings, 4);
        ASSERT_STREQ(i.nic_settings[1].value, "off");
        ASSERT_EQ(i.nic_settings[2].kind, NIC_PRIVATE_FLAG);
        ASSERT_STREQ(i.nic_settings[2].driver, "gve");
        ASSERT_STREQ(i.nic_settings[2].source, "profile generic, line 11: docs");
        ASSERT_EQ(i.nic_settings[3].kind, (int) NIC_SIZE + (int) LINK_GRO_IPV4_MAX_SIZE);
        scratch_write(&s, "etc/tpu-hostd/netcfg.conf.d/10-site.conf",
                      "[Netcfg]\nIgnoreSettings=gro_*, some-flag net.ipv4.tcp_rmem\n");
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_EQ(i.n_nic_settings, 2);
        ASSERT_EQ(i.n_sysctls, 0);
        ASSERT_STREQ(i.nic_settings[1].name, "rx-gro");
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
                                              { NIC_PRIVATE_FLAG, "a-flag", "gve", "on", "test" },
                                              { NIC_SIZE + LINK_GSO_MAX_SIZE, "gso_max_size", "", "65536", "test" } },
                            .n_nic_settings = 3 };
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
                { { .setting = 2, .offer = NIC_NOT_OF_KERNEL }, VERDICT_OK, "not offered by this kernel", false },
                { { .setting = 2, .value = "30000" }, VERDICT_FAIL, "30000", true },
                { { .setting = 2, .value = "30000", .offer = NIC_BEYOND_LIMIT, .limit = 40000 }, VERDICT_OK,
                  "30000; gve takes 40000 at most", false },
        };
        struct found_nic_setting size = { .setting = 2 };
        struct link l = { .name = "eth0" };
        char subject[64];

        for (size_t k = 0; k < ELEMENTSOF(t); k++)
                judge_setting(&i, &t[k].found, t[k].verdict, t[k].text, t[k].due);
        nic_setting_subject(&i.nic_settings[size.setting], &l, subject);
        ASSERT_STREQ(subject, "eth0"); /* the check names it */
        ASSERT_STREQ(nic_setting_check(i.nic_settings[2].kind), "nic.gso_max_size");
}

TEST_MAIN(test_nic_settings, test_nic_setting_verdicts,
          test_shipped_profiles, test_every_shipped_profile_is_whole, test_profile_by_chips, test_machines,
          test_rto_min, test_source_routing, test_which_nics, test_stated_mtu,
          test_reading_sysctls_and_parameters,
          test_fixtures_are_what_is_shipped, test_which_profile, test_given_file, test_network_mtu_bounds,
          test_refused_values, test_the_first_of_two_stands, test_mtu_rule, test_mtu_verdicts,
          test_sysctl_verdicts, test_sysctl_names)
