/* SPDX-License-Identifier: Apache-2.0 */
#include "identity.h"
#include "shape.h"
#include "test.h"

#include <jansson.h>

static void load(const char *fixture, struct identity *ret) {
        _cleanup_host_ struct host h = HOST_NULL;
        char root[512];

        (void) snprintf(root, sizeof(root), "%s/identity/%s", FIXTURES, fixture);
        ASSERT_OK(host_open(root, &h));
        ASSERT_OK(identity_load(&h, NULL, ret));
}

static void set(struct identity *i, enum identity_field f, const char *text) {
        free(i->fields[f].text);
        i->fields[f].text = text ? strdup(text) : NULL;
        (void) snprintf(i->fields[f].origin, sizeof(i->fields[f].origin), "test:1");
}

/* The only finding of an identity, its verdict and check. */
static void expect_one(const struct identity *i, enum verdict verdict, const char *check) {
        _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL;

        ASSERT_OK(identity_check(i, &l));
        ASSERT_EQ(l.n, 1);
        ASSERT_STREQ(l.items[0].check, check);
        ASSERT_EQ(l.items[0].verdict, verdict);
        if (verdict != VERDICT_OK)
                ASSERT_TRUE(l.items[0].remedy[0] && l.items[0].reason[0]);
}

static void test_static_file(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        uint32_t n;

        load("slice", &i);
        ASSERT_STREQ(identity_get(&i, IDENTITY_HOST_NAME), "t1v-n-abc-w-1");
        ASSERT_STREQ(identity_get(&i, IDENTITY_SLICE_NAME), "slice-a");
        ASSERT_STREQ(identity_get(&i, IDENTITY_WORKER_HOSTNAMES),
                     "t1v-n-abc-w-0,t1v-n-abc-w-1,t1v-n-abc-w-2,t1v-n-abc-w-3");
        ASSERT_STREQ(identity_get(&i, IDENTITY_WORKER_ID), "1");
        ASSERT_OK(identity_get_u32(&i, IDENTITY_CHIPS, &n));
        ASSERT_EQ(n, 4);
        ASSERT_STREQ(i.fields[IDENTITY_SLICE_NAME].origin, "/etc/tpu-hostd/identity.conf.d/10-slice.conf:3");
        ASSERT_STREQ(i.fields[IDENTITY_WORKER_HOSTNAMES].origin,
                     "/etc/tpu-hostd/identity.conf.d/10-slice.conf:9");
        expect_one(&i, VERDICT_OK, "identity");
}

static void test_later_file_starts_the_list_anew(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;

        load("override", &i);
        ASSERT_STREQ(identity_get(&i, IDENTITY_WORKER_HOSTNAMES), "10.0.0.1,fd00::2");
        ASSERT_STREQ(identity_get(&i, IDENTITY_SLICE_NAME), "old");
        ASSERT_STREQ(identity_get(&i, IDENTITY_HOST_NAME), "kernel-name");
        ASSERT_STREQ(i.fields[IDENTITY_HOST_NAME].origin, "kernel");
        expect_one(&i, VERDICT_FAIL, "identity.worker_id"); /* 7 of 2 */
}

static void test_bad_values_stay_unknown(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL;

        load("hostile", &i);
        ASSERT_STREQ(identity_get(&i, IDENTITY_HOST_NAME), "kernel-name");
        for (size_t f = IDENTITY_HOST_NAME + 1; f < _IDENTITY_FIELD_MAX; f++)
                ASSERT_TRUE(!identity_get(&i, (enum identity_field) f));
        ASSERT_OK(identity_check(&i, &l));
        ASSERT_EQ(l.n, 1);
        ASSERT_EQ(l.items[0].verdict, VERDICT_UNKNOWN);
}

static void test_given_file_must_be_readable(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_host_ struct host h = HOST_NULL;

        ASSERT_OK(host_open(FIXTURES "/identity/slice", &h));
        ASSERT_EQ(identity_load(&h, FIXTURES "/identity/no-such-file", &i), -ENOENT);
        ASSERT_OK(identity_load(&h,
                                FIXTURES "/identity/override/etc/tpu-hostd/identity.conf.d/10-slice.conf",
                                &i));
        ASSERT_STREQ(identity_get(&i, IDENTITY_WORKER_HOSTNAMES), "old-0,old-1");
}

static void test_json(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        json_t *o;

        load("override", &i);
        o = identity_to_json(&i);
        ASSERT_TRUE(o != NULL);
        ASSERT_EQ(json_object_size(o), _IDENTITY_FIELD_MAX);
        ASSERT_TRUE(json_is_null(json_object_get(o, "zone")));
        ASSERT_STREQ(json_string_value(json_object_get(json_object_get(o, "worker-id"), "value")), "7");
        ASSERT_STREQ(json_string_value(json_object_get(json_object_get(o, "worker-id"), "origin")),
                     "/etc/tpu-hostd/identity.conf.d/20-site.conf:4");
        json_decref(o);
}

static void test_what_does_not_fit(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;

        load("slice", &i);
        set(&i, IDENTITY_WORKER_ID, "4");
        expect_one(&i, VERDICT_FAIL, "identity.worker_id");
        set(&i, IDENTITY_WORKER_ID, "2"); /* the list has this host at place 1 */
        expect_one(&i, VERDICT_FAIL, "identity.worker_id");
        set(&i, IDENTITY_HOST_NAME, "not-in-the-list");
        expect_one(&i, VERDICT_OK, "identity");
        set(&i, IDENTITY_WORKER_HOSTNAMES, "a,b,a,c");
        expect_one(&i, VERDICT_FAIL, "identity.worker_hostnames");
        set(&i, IDENTITY_WORKER_HOSTNAMES, "a,aa,b,bb");
        expect_one(&i, VERDICT_OK, "identity");
        set(&i, IDENTITY_ACCELERATOR_TYPE, "v6e-16x");
        expect_one(&i, VERDICT_FAIL, "identity.accelerator_type");
        set(&i, IDENTITY_ACCELERATOR_TYPE, "tpu7x-16");
        set(&i, IDENTITY_CHIPS, "3");
        expect_one(&i, VERDICT_FAIL, "identity.chips");
        set(&i, IDENTITY_CHIPS, "8"); /* 4x4 in boxes of 2x4: two hosts, four are named */
        expect_one(&i, VERDICT_FAIL, "identity.topology");
        set(&i, IDENTITY_CHIPS, "4");
        set(&i, IDENTITY_TOPOLOGY, "3x4");
        expect_one(&i, VERDICT_FAIL, "identity.topology");
        set(&i, IDENTITY_CHIPS, "0"); /* a host without chips has no say in a topology */
        expect_one(&i, VERDICT_OK, "identity");
}

static void test_shapes(void) {
        static const char *const bad[] = { "",         "4",    "x",       "4x",
                                           "x4",       "4x4x", "4x4x4x4", "0x4",
                                           "4 x4",     "-4x4", "4x4\n",   "99999999999999999999x1",
                                           "1048576x2" };
        static const char *const bad_types[] = { "",
                                                 "v-8",
                                                 "v6e",
                                                 "v6e-",
                                                 "6e-8",
                                                 "V6e-8",
                                                 "tpu-8",
                                                 "v6e-8 ",
                                                 "v6e-8x",
                                                 "tpu7x8",
                                                 "v66666666666666666666666666666666-8" };
        struct shape s, box, hosts;
        char text[SHAPE_TEXT_MAX];

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_EQ(shape_parse_topology(bad[i], &s), -EINVAL);
        for (size_t i = 0; i < ELEMENTSOF(bad_types); i++)
                ASSERT_FALSE(accelerator_type_is_valid(bad_types[i]));
        ASSERT_TRUE(accelerator_type_is_valid("v5litepod-256"));
        ASSERT_TRUE(accelerator_type_is_valid("tpu7x-8"));
        ASSERT_OK(shape_parse_topology("4x4x8", &s));
        ASSERT_OK(shape_of_host(4, &box));
        ASSERT_OK(shape_hosts(&s, &box, &hosts));
        ASSERT_STREQ(shape_text(&hosts, text), "2,2,8"); /* a v4-256 says so itself */
        ASSERT_OK(shape_parse_topology("2x4", &s));
        ASSERT_OK(shape_hosts(&s, &box, &hosts));
        ASSERT_STREQ(shape_text(&hosts, text), "1,2,1"); /* so does a v6e-8 of two hosts */
        ASSERT_EQ(shape_of_host(3, &box), -ENODATA);
        ASSERT_EQ(shape_of_host(0, &box), -ENODATA);
        ASSERT_OK(shape_parse_topology("2x3", &s));
        ASSERT_OK(shape_of_host(8, &box));
        ASSERT_EQ(shape_hosts(&s, &box, &hosts), -EDOM);
        ASSERT_FALSE(worker_name_is_valid("a,b", 3));
        ASSERT_FALSE(worker_name_is_valid("", 0));
        ASSERT_FALSE(label_is_valid("a\tb"));
}

TEST_MAIN(test_static_file, test_later_file_starts_the_list_anew, test_bad_values_stay_unknown,
          test_given_file_must_be_readable, test_json, test_what_does_not_fit, test_shapes)
