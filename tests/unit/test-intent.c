/* SPDX-License-Identifier: Apache-2.0 */
#include "intent.h"
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

#define PCI "sys/bus/pci/devices/"

/* Of a generation that no file knows. */
static void unknown_chip(const struct scratch *s) {
        scratch_write(s, PCI "0000:00:04.0/vendor", "0x1ae0\n");
        scratch_write(s, PCI "0000:00:04.0/device", "0x7777\n");
        scratch_write(s, PCI "0000:00:04.0/class", "0x120000\n");
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
        ASSERT_EQ(i.n_sysctls, 8);
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
                ASSERT_EQ(i.n_sysctls, 8);
                ASSERT_EQ(i.rto_min, 5000);
                ASSERT_EQ(i.n_parameters, 1);
                ASSERT_EQ(i.n_nic_settings, 2);
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

                (void) snprintf(text, sizeof(text), "[SourceRouting]\nValue=%s\nSource=docs\n",
                                t[k].profile);
                profile(&s, "generic", text);
                unknown_chip(&s);
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

        unknown_chip(&s);
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

/* A machine without TPUs is not changed at all, unless the site says in words what it wants of it. */
static void test_no_tpu(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct intent i;

        profile(&s, "generic", GENERIC RMEM);
        ASSERT_OK(load(&s, NULL, &i)); /* not even that bus */
        ASSERT_TRUE(i.no_tpu);
        /* gVNIC and NVMe, as any VM of Google's has them */
        scratch_write(&s, PCI "0000:00:03.0/vendor", "0x1ae0\n");
        scratch_write(&s, PCI "0000:00:03.0/device", "0x0042\n");
        scratch_write(&s, PCI "0000:00:03.0/class", "0x020000\n");
        scratch_write(&s, PCI "0000:00:05.0/vendor", "0x1ae0\n");
        scratch_write(&s, PCI "0000:00:05.0/device", "0x001f\n");
        scratch_write(&s, PCI "0000:00:05.0/class", "0x010802\n");
        scratch_write(&s, PCI "0000:00:06.0/vendor", "0x8086\n"); /* another maker's accelerator */
        scratch_write(&s, PCI "0000:00:06.0/device", "0x7777\n");
        scratch_write(&s, PCI "0000:00:06.0/class", "0x120000\n");
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_TRUE(i.no_tpu && i.mtu == 0 && i.n_sysctls == 0 && i.n_nic_settings == 0 &&
                    !i.source_routing);
        ASSERT_STREQ(i.profile, "none");
        ASSERT_TRUE(startswith(i.profile_note, "no TPU is in /sys/bus/pci"));
        /* of a whole site */
        scratch_write(&s, "etc/tpu-hostd/netcfg.conf.d/10-a.conf", "[Netcfg]\nSourceRouting=yes\n");
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_TRUE(i.no_tpu && !i.source_routing);
        scratch_write(&s, "etc/tpu-hostd/netcfg.conf.d/10-a.conf", "[Netcfg]\nProfile=generic\n");
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_TRUE(!i.no_tpu && i.mtu == 8896 && i.n_sysctls == 1);
        scratch_write(&s, "etc/tpu-hostd/netcfg.conf.d/10-a.conf", "");
        identity(&s, "[Identity]\nAcceleratorType=v6e-4\n");
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_TRUE(!i.no_tpu && i.mtu == 8896);
        identity(&s, "");
        unknown_chip(&s);
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_TRUE(!i.no_tpu && i.mtu == 8896);
        ASSERT_STREQ(i.profile, "generic");
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
                unknown_chip(&s);
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
                "[Sysctl vm.max_map_count]\nValue=1048576\nSource=docs\n", /* --restore would not take it */
                "[Sysctl "
                "net.ipv4.a_name_far_too_long_for_the_ini_reader_to_give_back_whole]\nValue=1\nSource="
                "docs\n",
                "[Sysctl net.ipv4.tcp_sack]\nValue=1\nSource=" TOO_LONG "\n",
                "[Mtu]\nValue=65535\nSource=docs\n",
                "[Mtu]\nValue=8896\n",
                "[Route]\nValue=1\nSource=docs\n",
                "[Parameter kvm.halt_poll_ns]\nValue=1\nSource=docs\n",
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
                "[Link gso_max_size]\nValue=65536\nSource=docs\n",
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
                unknown_chip(&s);
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
        unknown_chip(&s);
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_EQ(i.mtu, 8896);
        ASSERT_EQ(i.n_sysctls, 1);
        ASSERT_STREQ(i.sysctls[0].value, "4096 41943040 314572800");
}

static void test_nic_settings(void) {
        static const char text[] = "[Feature tx-nocache-copy]\nValue=on\nSource=docs\n"
                                   "[Feature rx-gro]\nValue=off\nSource=docs\n"
                                   "[Feature rx-gro]\nValue=on\nSource=docs\n" /* the first stands */
                                   "[PrivateFlag gve some-flag]\nValue=on\nSource=docs\n" RMEM;
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct intent i;

        unknown_chip(&s);
        profile(&s, "generic", text);
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_EQ(i.n_nic_settings, 3);
        ASSERT_STREQ(i.nic_settings[1].value, "off");
        ASSERT_EQ(i.nic_settings[2].kind, NIC_PRIVATE_FLAG);
        ASSERT_STREQ(i.nic_settings[2].driver, "gve");
        ASSERT_STREQ(i.nic_settings[2].source, "profile generic, line 11: docs");
        scratch_write(&s, "etc/tpu-hostd/netcfg.conf.d/10-site.conf",
                      "[Netcfg]\nIgnoreSettings=some-*, net.ipv4.tcp_rmem\n");
        ASSERT_OK(load(&s, NULL, &i));
        ASSERT_EQ(i.n_nic_settings, 2);
        ASSERT_EQ(i.n_sysctls, 0);
        ASSERT_STREQ(i.nic_settings[1].name, "rx-gro");
}

TEST_MAIN(test_nic_settings, test_shipped_profiles, test_every_shipped_profile_is_whole,
          test_profile_by_chips, test_no_tpu,
          test_rto_min, test_source_routing, test_fixtures_are_what_is_shipped, test_which_profile,
          test_given_file, test_network_mtu_bounds, test_refused_values, test_the_first_of_two_stands)
