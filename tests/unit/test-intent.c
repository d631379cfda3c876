/* SPDX-License-Identifier: Apache-2.0 */
#include "intent.h"
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
        ASSERT_EQ(i.n_sysctls, 1);
        ASSERT_STREQ(i.sysctls[0].name, "net.ipv4.tcp_rmem");
        ASSERT_STREQ(i.sysctls[0].value, "4096 41943040 314572800");
        ASSERT_EQ(i.network_mtu, 8896);
        ASSERT_STREQ(i.network_mtu_source, "/etc/tpu-hostd/identity.conf.d/10-host.conf:5");
        ASSERT_FALSE(i.observe);
}

/* The fixture's profiles are those that are shipped. */
static void test_fixture_is_what_is_shipped(void) {
        static const char *const names[] = { "v6e", "generic" };
        _cleanup_host_ struct host h = HOST_NULL;

        ASSERT_OK(host_open(FIXTURES "/../..", &h));
        for (size_t k = 0; k < ELEMENTSOF(names); k++) {
                char path[128], shipped[8192], copy[8192];

                (void) snprintf(path, sizeof(path), "/netcfg/profiles/%s.conf", names[k]);
                ASSERT_OK(host_read(&h, path, shipped, sizeof(shipped), NULL));
                (void) snprintf(path, sizeof(path), "/tests/fixtures/netcfg-v6e/usr/lib/tpu-hostd/profiles/%s.conf",
                                names[k]);
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
        ASSERT_STREQ(i.profile_note, "the accelerator type is not known");
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
}

static void test_sysctl_names(void) {
        static const char *const bad[] = { "",       ".",          "net.",         ".net",
                                           "net..x", "net/ipv4",   "net.ipv4.a b", "NET",
                                           "..",     "net.ipv4.\n" };
        char path[64], text[] = " \t1\t\t2 \n";

        ASSERT_OK(intent_sysctl_path("net.ipv4.tcp_rmem", path, sizeof(path)));
        ASSERT_STREQ(path, "/proc/sys/net/ipv4/tcp_rmem");
        ASSERT_EQ(intent_sysctl_path("net.ipv4.tcp_rmem", path, 27), -ENAMETOOLONG);
        ASSERT_OK(intent_sysctl_path("net.ipv4.tcp_rmem", path, 28));
        for (size_t k = 0; k < ELEMENTSOF(bad); k++)
                ASSERT_EQ(intent_sysctl_path(bad[k], path, sizeof(path)), -EINVAL);
        intent_sysctl_normalize(text);
        ASSERT_STREQ(text, "1 2");
}

TEST_MAIN(test_shipped_profiles, test_fixture_is_what_is_shipped, test_which_profile, test_given_file, test_network_mtu_bounds,
          test_refused_values, test_the_first_of_two_stands, test_mtu_rule, test_mtu_verdicts,
          test_sysctl_verdicts, test_sysctl_names)
