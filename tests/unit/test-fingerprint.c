/* SPDX-License-Identifier: Apache-2.0 */
#include "fingerprint.h"
#include "test.h"

static void add(struct finding_list *l, const char *check, const char *subject, enum verdict v,
                const char *found) {
        struct finding f;

        finding_init(&f, check, subject);
        f.verdict = v;
        finding_set(f.found, "%s", found);
        ASSERT_OK(finding_list_add(l, &f));
}

static void make(struct finding_list *l, const char *libtpu) {
        add(l, "fingerprint.wheel", "libtpu", VERDICT_OK, libtpu);
        add(l, "fingerprint.kernel", "", VERDICT_OK, "6.1.0-18-amd64");
        add(l, "fingerprint.flags", "XLA_FLAGS", VERDICT_OK, "--xla_dump_to=/tmp");
        add(l, "fingerprint.wheel", "", VERDICT_UNKNOWN, ""); /* what could not be read is no part */
        add(l, "nic.mtu", "eth0", VERDICT_OK, "8896");
}

static void test_same_hosts_are_the_same(void) {
        _cleanup_finding_list_ struct finding_list a = FINDING_LIST_NULL, b = FINDING_LIST_NULL;
        struct fingerprint x, y;
        const char *part, *p, *q;

        make(&a, "0.0.21 in /usr/local/lib/python3.10/dist-packages");
        make(&b,
             "0.0.21 in /home/u/.local/lib/python3.10/site-packages"); /* another place, the same version */
        fingerprint_of(&a, &x);
        fingerprint_of(&b, &y);
        ASSERT_EQ(x.n, 3);
        ASSERT_STREQ(x.digest, y.digest);
        ASSERT_EQ(strlen(x.digest), 16);
        ASSERT_EQ(fingerprint_compare(&x, &y, &part, &p, &q), 0);
        /* by name, whatever the order of the probe */
        ASSERT_STREQ(x.parts[0].name, "XLA_FLAGS");
        ASSERT_STREQ(x.parts[1].name, "kernel");
        ASSERT_STREQ(x.parts[2].text, "0.0.21");
}

static void test_the_part_that_differs_is_named(void) {
        _cleanup_finding_list_ struct finding_list a = FINDING_LIST_NULL, b = FINDING_LIST_NULL;
        struct fingerprint x, y;
        const char *part, *p, *q;

        make(&a, "0.0.21 in /a");
        make(&b, "0.0.21 in /a; 0.0.17 in /b");
        fingerprint_of(&a, &x);
        fingerprint_of(&b, &y);
        ASSERT_TRUE(!streq(x.digest, y.digest));
        ASSERT_EQ(fingerprint_compare(&x, &y, &part, &p, &q), 1);
        ASSERT_STREQ(part, "libtpu");
        ASSERT_STREQ(p, "0.0.21");
        ASSERT_STREQ(q, "0.0.21,0.0.17");
        fingerprint_of(&a, &y);
        fingerprint_set(&y, "LIBTPU_INIT_ARGS", "--a");
        ASSERT_EQ(fingerprint_compare(&x, &y, &part, &p, &q), 1);
        ASSERT_STREQ(part, "LIBTPU_INIT_ARGS");
        ASSERT_STREQ(p, "");
        ASSERT_STREQ(q, "--a");
        fingerprint_set(&x, "LIBTPU_INIT_ARGS", "--b");
        fingerprint_set(&x, "LIBTPU_INIT_ARGS", "--a");
        ASSERT_STREQ(x.digest, y.digest);
}

static void test_json_and_bounds(void) {
        struct fingerprint x = { .n = 0 };
        json_t *v;

        for (int k = 0; k < FINGERPRINT_PARTS_MAX + 5; k++) {
                char name[16];

                (void) snprintf(name, sizeof(name), "p%02d", k);
                fingerprint_set(&x, name, "1");
        }
        ASSERT_EQ(x.n, FINGERPRINT_PARTS_MAX);
        v = fingerprint_to_json(&x);
        ASSERT_STREQ(json_string_value(json_object_get(v, "digest")), x.digest);
        ASSERT_EQ(json_object_size(json_object_get(v, "parts")), FINGERPRINT_PARTS_MAX);
        json_decref(v);
}

TEST_MAIN(test_same_hosts_are_the_same, test_the_part_that_differs_is_named, test_json_and_bounds)
