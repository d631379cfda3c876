/* SPDX-License-Identifier: Apache-2.0 */
#include "identity_environment.h"
#include "topology.h"
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
        ASSERT_OK(identity_load(
                &h, FIXTURES "/identity/override/etc/tpu-hostd/identity.conf.d/10-slice.conf", &i));
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
        set(&i, IDENTITY_WORKER_ADDRESSES, "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.2");
        expect_one(&i, VERDICT_FAIL, "identity.worker_addresses");
        set(&i, IDENTITY_WORKER_ADDRESSES, "10.0.0.1,10.0.0.2,10.0.0.3");
        expect_one(&i, VERDICT_FAIL, "identity.worker_addresses");
        set(&i, IDENTITY_WORKER_ADDRESSES, NULL);
        set(&i, IDENTITY_SLICES, "2");
        set(&i, IDENTITY_SLICE_ID, "2");
        expect_one(&i, VERDICT_FAIL, "identity.slice_id");
}

struct change {
        enum identity_field field;
        const char *text;
};

/* One or two fields of a sound host are others: exactly one finding, with these words. */
static void test_hardware_that_does_not_fit(void) {
        static const struct {
                struct change changes[2];
                const char *check, *found, *wanted, *reason;
        } t[] = {
                { { { IDENTITY_ACCELERATOR_TYPE, "v6e-16x" } },
                  "identity.accelerator_type",
                  "v6e-16x",
                  "for example v6e-16",
                  NULL },
                { { { IDENTITY_ACCELERATOR_TYPE, "v5p-32" } },
                  "identity.accelerator_type",
                  "v5p-32",
                  "a type of v6e",
                  "this machine is ct6e-standard-4t (test:1)" },
                { { { IDENTITY_CHIPS, "8" } },
                  "identity.chips",
                  "8 chips on this host",
                  "4",
                  "this machine is ct6e-standard-4t (test:1)" },
                { { { IDENTITY_MACHINE_TYPE, NULL }, { IDENTITY_CHIPS, "3" } },
                  "identity.chips",
                  "3 chips on this host",
                  "1, 2, 4 or 8",
                  NULL },
                { { { IDENTITY_TOPOLOGY, "4x8" } },
                  "identity.topology",
                  "v6e-16, 4x8",
                  "",
                  "4x8 has 32 chips, v6e-16 has 16" },
                { { { IDENTITY_MACHINE_TYPE, NULL }, { IDENTITY_CHIPS, "8" } },
                  "identity.topology",
                  "v6e-16, 4x4",
                  "",
                  "a host of a v6e slice of 16 chips has 4, not 8" },
                { { { IDENTITY_ACCELERATOR_TYPE, "v6e-32" }, { IDENTITY_TOPOLOGY, "4x8" } },
                  "identity.topology",
                  "4x8 with 4 chips a host",
                  "8 hosts",
                  "worker-hostnames names 4 hosts, the topology has 8" },
                { { { IDENTITY_HOST_BOUNDS, "1,2,1" } },
                  "identity.host_bounds",
                  "1,2,1",
                  "2,2,1",
                  "that is what v6e-16 in topology 4x4 has" },
                { { { IDENTITY_CHIPS_PER_HOST_BOUNDS, "2,4,1" } },
                  "identity.chips_per_host_bounds",
                  "2,4,1",
                  "2,2,1",
                  NULL },
                /* a generation that is not known here is judged by its boxes alone */
                { { { IDENTITY_ACCELERATOR_TYPE, "v9-16" }, { IDENTITY_TOPOLOGY, "3x4" } },
                  "identity.topology",
                  "3x4 with 4 chips a host",
                  "",
                  "hosts of 4 chips cannot fill this topology" },
        };

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL;
                _cleanup_identity_ struct identity i = IDENTITY_NULL;

                load("slice", &i);
                set(&i, IDENTITY_MACHINE_TYPE, "ct6e-standard-4t");
                for (size_t c = 0; c < 2; c++)
                        if (c == 0 || t[k].changes[c].text || t[k].changes[c].field != IDENTITY_HOST_NAME)
                                set(&i, t[k].changes[c].field, t[k].changes[c].text);
                ASSERT_OK(identity_check(&i, &l));
                ASSERT_EQ(l.n, 1);
                ASSERT_EQ(l.items[0].verdict, VERDICT_FAIL);
                ASSERT_STREQ(l.items[0].check, t[k].check);
                ASSERT_STREQ(l.items[0].found, t[k].found);
                ASSERT_STREQ(l.items[0].wanted, t[k].wanted);
                if (t[k].reason)
                        ASSERT_STREQ(l.items[0].reason, t[k].reason);
                ASSERT_TRUE(l.items[0].remedy[0] && l.items[0].source[0]);
        }
}

static void test_a_host_without_chips(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;

        load("slice", &i);
        set(&i, IDENTITY_MACHINE_TYPE, NULL);
        set(&i, IDENTITY_ACCELERATOR_TYPE, NULL);
        set(&i, IDENTITY_CHIPS, "0"); /* has no say in a topology */
        set(&i, IDENTITY_TOPOLOGY, "3x4");
        expect_one(&i, VERDICT_OK, "identity");
}

static void expect_derived(const struct identity *i, enum identity_field f, const char *text,
                           const char *origin) {
        ASSERT_STREQ(identity_get(i, f), text);
        ASSERT_STREQ(i->fields[f].origin, origin);
        ASSERT_TRUE(identity_is_derived(i, f));
}

static void test_what_follows(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;

        ASSERT_OK(identity_add(&i, IDENTITY_ACCELERATOR_TYPE, "v5litepod-16", "metadata"));
        ASSERT_OK(identity_derive(&i));
        expect_derived(&i, IDENTITY_TOPOLOGY, "4x4", "from accelerator-type");
        expect_derived(&i, IDENTITY_CHIPS, "4", "from accelerator-type");
        expect_derived(&i, IDENTITY_HOST_BOUNDS, "2,2,1", "from accelerator-type");
        expect_derived(&i, IDENTITY_TOPOLOGY_WRAP, "false,false,false", "from accelerator-type");
        /* a source that says it stands before what follows, and what followed is made anew */
        ASSERT_OK(identity_add(&i, IDENTITY_TOPOLOGY, "2x8", "metadata"));
        ASSERT_OK(identity_derive(&i));
        ASSERT_STREQ(identity_get(&i, IDENTITY_TOPOLOGY), "2x8");
        expect_derived(&i, IDENTITY_HOST_BOUNDS, "1,4,1", "from topology");
        identity_clear(&i);

        /* one host of 8 chips, or two of 4: only the machine type says */
        ASSERT_OK(identity_add(&i, IDENTITY_ACCELERATOR_TYPE, "v6e-8", "metadata"));
        ASSERT_OK(identity_derive(&i));
        ASSERT_TRUE(!identity_get(&i, IDENTITY_CHIPS) && !identity_get(&i, IDENTITY_HOST_BOUNDS));
        ASSERT_OK(identity_add(&i, IDENTITY_MACHINE_TYPE, "ct6e-standard-4t", "metadata"));
        ASSERT_OK(identity_derive(&i));
        expect_derived(&i, IDENTITY_CHIPS, "4", "from machine-type");
        expect_derived(&i, IDENTITY_HOST_BOUNDS, "1,2,1", "from accelerator-type");
}

static void test_environment_of_the_command(void) {
        char *const environment[] = { (char[]){ "PATH=/bin" },
                                      (char[]){ "TPU_WORKER_ID=9" },
                                      (char[]){ "TPU_WORKER_HOSTNAMES=a,b c" },
                                      (char[]){ "TPU_NAME=" },
                                      (char[]){ "MEGASCALE_NUM_SLICES=2" },
                                      (char[]){ "MEGASCALE_SLICE_ID=1" },
                                      (char[]){ "MEGASCALE_COORDINATOR_ADDRESS=h0:8081" },
                                      (char[]){ "TPU_WORKER_IDX=1" },
                                      NULL };
        _cleanup_identity_ struct identity i = IDENTITY_NULL, from_file = IDENTITY_NULL;
        char bad[128];

        ASSERT_OK(identity_add_environment(&i, environment, bad));
        ASSERT_STREQ(identity_get(&i, IDENTITY_WORKER_ID), "9");
        ASSERT_STREQ(i.fields[IDENTITY_WORKER_ID].origin, "environment TPU_WORKER_ID");
        ASSERT_STREQ(identity_get(&i, IDENTITY_COORDINATOR), "h0:8081");
        ASSERT_STREQ(bad, "TPU_WORKER_HOSTNAMES cannot be worker-hostnames: it is passed over");
        ASSERT_TRUE(!identity_get(&i, IDENTITY_SLICE_NAME) && !identity_get(&i, IDENTITY_WORKER_HOSTNAMES));
        /* it stands before what comes later, and behind the file */
        ASSERT_OK(identity_add(&i, IDENTITY_WORKER_ID, "3", "metadata"));
        ASSERT_STREQ(identity_get(&i, IDENTITY_WORKER_ID), "9");
        load("slice", &from_file);
        ASSERT_OK(identity_add_environment(&from_file, environment, bad));
        ASSERT_STREQ(identity_get(&from_file, IDENTITY_WORKER_ID), "1");
        ASSERT_STREQ(identity_get(&from_file, IDENTITY_SLICES), "2");
}

/* GKE gives tpu7x TPU_PROCESS_ADDRESSES where others have TPU_WORKER_HOSTNAMES. */
static void test_process_addresses(void) {
        static const struct {
                const char *text, *wanted; /* NULL: refused */
        } t[] = {
                { "h0.svc:8471,h1.svc:8471", "h0.svc,h1.svc" },
                { "h0", "h0" },
                { "[fd00::1]:8471,[fd00::2]:8471", "fd00::1,fd00::2" },
                { "fd00::1,[fd00::2]", "fd00::1,fd00::2" },
                { "10.0.0.1:8471,,10.0.0.2:8471", NULL },
                { ":8471", NULL },
                { "[", NULL },
                { "[]:1,]:[", NULL },
        };
        char text[64], bad[128];

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                char *environment[] = { text, NULL, NULL };
                _cleanup_identity_ struct identity i = IDENTITY_NULL, both = IDENTITY_NULL;

                (void) snprintf(text, sizeof(text), "TPU_PROCESS_ADDRESSES=%s", t[k].text);
                ASSERT_OK(identity_add_environment(&i, environment, bad));
                ASSERT_TRUE(!t[k].wanted == !identity_get(&i, IDENTITY_WORKER_HOSTNAMES));
                ASSERT_TRUE(!t[k].wanted == !!bad[0]);
                if (t[k].wanted)
                        ASSERT_STREQ(identity_get(&i, IDENTITY_WORKER_HOSTNAMES), t[k].wanted);
                environment[1] = (char[]){ "TPU_WORKER_HOSTNAMES=first" };
                ASSERT_OK(identity_add_environment(&both, environment, bad));
                ASSERT_STREQ(identity_get(&both, IDENTITY_WORKER_HOSTNAMES), "first");
                ASSERT_STREQ(bad, "");
        }
}

/* What each field takes and refuses, by the way that weaker sources come in. */
static void test_fields(void) {
        static const struct {
                enum identity_field field;
                const char *text, *wanted; /* NULL: refused */
        } t[] = {
                { IDENTITY_WORKER_HOSTNAMES, "a, b,c", "a,b,c" },
                { IDENTITY_WORKER_HOSTNAMES, "", NULL },
                { IDENTITY_WORKER_HOSTNAMES, "a,,b", NULL },
                { IDENTITY_WORKER_ADDRESSES, "10.0.0.1,fd00::2", "10.0.0.1,fd00::2" },
                { IDENTITY_CHIPS_PER_HOST_BOUNDS, "2,2,1", "2,2,1" },
                { IDENTITY_CHIPS_PER_HOST_BOUNDS, "2,2", NULL },
                { IDENTITY_HOST_BOUNDS, "2x2x1", NULL },
                { IDENTITY_HOST_BOUNDS, "0,1,1", NULL },
                { IDENTITY_TOPOLOGY_WRAP, "true,false,true", "true,false,true" },
                { IDENTITY_TOPOLOGY_WRAP, "true,false", NULL },
                { IDENTITY_TOPOLOGY_WRAP, "true,false,true,true", NULL },
                { IDENTITY_TOPOLOGY_WRAP, "yes,no,no", NULL },
                { IDENTITY_ICI_RESILIENCY, "TRUE", "true" },
                { IDENTITY_PREEMPTIBLE, "False", "false" },
                { IDENTITY_PREEMPTIBLE, "maybe", NULL },
                { IDENTITY_SLICES, "0", NULL },
                { IDENTITY_SLICES, "2", "2" },
                { IDENTITY_SLICE_ID, "0", "0" },
                { IDENTITY_SLICE_ID, "-1", NULL },
                { IDENTITY_COORDINATOR, "[fd00::1]:8080", "[fd00::1]:8080" },
                { IDENTITY_COORDINATOR, "a b", NULL },
                { IDENTITY_INSTANCE_ID, "6502082742571311568", "6502082742571311568" },
                { IDENTITY_INSTANCE_ID, "650208274257131156812", NULL },
                { IDENTITY_INSTANCE_ID, "x", NULL },
                { IDENTITY_ZONE, "us-central2-b", "us-central2-b" },
                { IDENTITY_ACCELERATOR_TYPE, "v5e-16", "v5litepod-16" },
                { IDENTITY_ACCELERATOR_TYPE, "v5litepod-16", "v5litepod-16" },
                { IDENTITY_ACCELERATOR_TYPE, "v7x-16", "tpu7x-16" },
                { IDENTITY_ACCELERATOR_TYPE, "v6e-016", "v6e-16" },
                { IDENTITY_ACCELERATOR_TYPE, "v9z-16", "v9z-16" }, /* not known: as it is */
                { IDENTITY_ACCELERATOR_TYPE, "v4-7", "v4-7" }, /* identity_check() says what is wrong */
                { IDENTITY_SLICE_NAME, "a", "a" },
                { IDENTITY_SLICE_NAME, "TPU-a.b_c", "TPU-a.b_c" },
                { IDENTITY_SLICE_NAME, "TPU", NULL },
                { IDENTITY_SLICE_NAME, "memory", NULL },
                { IDENTITY_SLICE_NAME, "a-", NULL },
                { IDENTITY_SLICE_NAME, "_a", NULL },
                { IDENTITY_SLICE_NAME, ".", NULL },
                { IDENTITY_SLICE_NAME, "", NULL },
        };
        enum identity_field f;

        for (size_t k = 0; k < ELEMENTSOF(t); k++) {
                _cleanup_identity_ struct identity i = IDENTITY_NULL;

                ASSERT_EQ(identity_add(&i, t[k].field, t[k].text, "test"), t[k].wanted ? 0 : -EINVAL);
                if (t[k].wanted)
                        ASSERT_STREQ(identity_get(&i, t[k].field), t[k].wanted);
                else
                        ASSERT_TRUE(!identity_get(&i, t[k].field));
                ASSERT_OK(identity_field_parse(identity_field_name(t[k].field), &f));
                ASSERT_EQ(f, t[k].field);
        }
        ASSERT_EQ(identity_field_parse("worker_id", &f), -EINVAL);
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
          test_given_file_must_be_readable, test_json, test_what_does_not_fit,
          test_hardware_that_does_not_fit, test_a_host_without_chips, test_what_follows,
          test_environment_of_the_command, test_process_addresses, test_fields, test_shapes)
