/* SPDX-License-Identifier: Apache-2.0 */
#include "fingerprint.h"
#include "test.h"

static void take(struct fingerprint *f, const char *check, const char *subject, enum verdict v,
                 const char *found) {
        struct finding x;

        finding_init(&x, check, subject);
        x.verdict = v;
        finding_set(x.found, "%s", found);
        fingerprint_take(f, &x);
}

static struct fingerprint make(const char *libtpu, const char *flags) {
        struct fingerprint f = { .n = 0 };

        take(&f, "fingerprint.wheel", "libtpu", VERDICT_OK, libtpu);
        take(&f, "fingerprint.kernel", "", VERDICT_OK, "6.1.0-18-amd64");
        take(&f, "fingerprint.flags", "XLA_FLAGS", VERDICT_OK, flags);
        take(&f, "fingerprint.wheel", "", VERDICT_UNKNOWN, ""); /* what could not be read is no part */
        take(&f, "nic.mtu", "eth0", VERDICT_OK, "8896");
        return f;
}

static void test_same_hosts_are_the_same(void) {
        struct fingerprint x = make("0.0.21 in /usr/local/lib/python3.10/dist-packages", "--a"),
                           /* another place */
                           y = make("0.0.21 in /home/u/.local/lib/python3.10/site-packages", "--a");

        ASSERT_EQ(x.n, 3);
        ASSERT_STREQ(x.digest, y.digest);
        ASSERT_EQ(strlen(x.digest), 16);
        /* by name, whatever the order of the probe */
        ASSERT_STREQ(x.parts[0].name, "XLA_FLAGS");
        ASSERT_STREQ(x.parts[1].name, "kernel");
        ASSERT_STREQ(x.parts[2].text, "0.0.21");
}

static void test_others_differ(void) {
        struct fingerprint x = make("0.0.21 in /a", "--a"), y = make("0.0.21 in /a; 0.0.17 in /b", "--a"),
                           z = make("0.0.21 in /a", "--b");

        ASSERT_TRUE(!streq(x.digest, y.digest));
        ASSERT_STREQ(y.parts[2].text, "0.0.21,0.0.17");
        ASSERT_TRUE(!streq(x.digest, z.digest));
        /* a new finding is in place of the last */
        take(&z, "fingerprint.flags", "XLA_FLAGS", VERDICT_OK, "--a");
        ASSERT_STREQ(x.digest, z.digest);
}

static void test_json_and_bounds(void) {
        struct fingerprint x = { .n = 0 };
        json_t *v;

        for (int k = 0; k < FINGERPRINT_PARTS_MAX + 5; k++) {
                char name[16];

                (void) snprintf(name, sizeof(name), "p%02d", k);
                take(&x, "fingerprint.flags", name, VERDICT_OK, "1");
        }
        ASSERT_EQ(x.n, FINGERPRINT_PARTS_MAX);
        v = fingerprint_to_json(&x);
        ASSERT_STREQ(json_string_value(json_object_get(v, "digest")), x.digest);
        ASSERT_EQ(json_object_size(json_object_get(v, "parts")), FINGERPRINT_PARTS_MAX);
        json_decref(v);
}

static void test_workers(void) {
        struct fingerprint a = { .n = 0 }, b = { .n = 0 };
        char list[600] = "", other[600];

        fingerprint_take_workers(&a, NULL, 0);
        ASSERT_EQ(a.n, 0);
        fingerprint_take_workers(&a, "h0,h1", 2);
        ASSERT_STREQ(a.parts[0].name, "workers");
        ASSERT_STREQ(a.parts[0].text, "h0,h1");
        for (int i = 0; i < 64; i++)
                (void) snprintf(list + strlen(list), sizeof(list) - strlen(list), "host-%d,", i);
        memcpy(other, list, sizeof(list));
        other[strlen(other) - 2] = '9'; /* beyond what is shown of it */
        fingerprint_take_workers(&a, list, 64);
        fingerprint_take_workers(&b, other, 64);
        ASSERT_TRUE(startswith(a.parts[0].text, "64 hosts, host-0,host-1,"));
        ASSERT_FALSE(streq(a.parts[0].text, b.parts[0].text) || streq(a.digest, b.digest));
}

TEST_MAIN(test_workers, test_same_hosts_are_the_same, test_others_differ, test_json_and_bounds)
