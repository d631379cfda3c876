/* SPDX-License-Identifier: Apache-2.0 */
#include "environment.h"
#include "test.h"

static void set(struct identity *i, enum identity_field f, const char *text) {
        free(i->fields[f].text);
        i->fields[f].text = text ? strdup(text) : NULL;
        (void) snprintf(i->fields[f].origin, sizeof(i->fields[f].origin), "/etc/x.conf:%d", (int) f);
}

static void make_slice(struct identity *i) {
        set(i, IDENTITY_SLICE_NAME, "slice-a");
        set(i, IDENTITY_ACCELERATOR_TYPE, "v6e-16");
        set(i, IDENTITY_TOPOLOGY, "4x4");
        set(i, IDENTITY_WORKER_ID, "3");
        set(i, IDENTITY_WORKER_HOSTNAMES, "h0,h1,h2,h3");
        set(i, IDENTITY_CHIPS, "4");
}

static const struct environment_entry *get(const struct environment *e, const char *name) {
        for (size_t i = 0; i < e->n; i++)
                if (startswith(e->entries[i].assignment, name) &&
                    e->entries[i].assignment[strlen(name)] == '=')
                        return &e->entries[i];
        return NULL;
}

static void expect(const struct environment *e, const char *name, const char *value) {
        const struct environment_entry *entry = get(e, name);

        ASSERT_TRUE(entry != NULL);
        ASSERT_STREQ(entry->assignment + strlen(name) + 1, value);
        ASSERT_TRUE(entry->reason[0] != '\0');
}

static void test_plain(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL, empty = ENVIRONMENT_NULL;
        char why[256];

        make_slice(&i);
        ASSERT_OK(environment_build(&i, FRAMEWORK_PLAIN, NULL, 0, &e, why));
        ASSERT_EQ(e.n, 5);
        expect(&e, "TPU_NAME", "slice-a");
        expect(&e, "TPU_WORKER_ID", "3");
        expect(&e, "TPU_WORKER_HOSTNAMES", "h0,h1,h2,h3");
        ASSERT_STREQ(get(&e, "TPU_WORKER_ID")->reason, "worker-id from /etc/x.conf:5");
        /* Nothing that turns a framework from its own discovery. */
        ASSERT_TRUE(!get(&e, "TPU_SKIP_MDS_QUERY") && !get(&e, "MASTER_ADDR") && !get(&e, "RANK"));

        identity_clear(&i);
        ASSERT_OK(environment_build(&i, FRAMEWORK_PLAIN, NULL, 0, &empty, why));
        ASSERT_EQ(empty.n, 0);
}

static void test_jax(void) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        char why[256];

        make_slice(&i);
        ASSERT_OK(environment_build(&i, FRAMEWORK_JAX, NULL, 0, &e, why));
        expect(&e, "TPU_SKIP_MDS_QUERY", "1");
        expect(&e, "TPU_WORKER_ID", "3");
        expect(&e, "TPU_WORKER_HOSTNAMES", "h0,h1,h2,h3");
        expect(&e, "TPU_ACCELERATOR_TYPE", "v6e-16");
        expect(&e, "TPU_TOPOLOGY", "4x4");
        expect(&e, "TPU_CHIPS_PER_HOST_BOUNDS", "2,2,1");
        expect(&e, "TPU_HOST_BOUNDS", "2,2,1");
        expect(&e, "TPU_CHIPS_PER_PROCESS_BOUNDS", "2,2,1");
        expect(&e, "TPU_PROCESS_BOUNDS", "2,2,1");
        expect(&e, "JAX_PLATFORMS", "tpu,cpu");
        ASSERT_EQ(e.n, 11);
}

/* Half an environment would leave JAX waiting for a server that it was told not to ask. */
static void test_jax_needs_all(void) {
        static const enum identity_field needed[] = { IDENTITY_ACCELERATOR_TYPE, IDENTITY_TOPOLOGY,
                                                      IDENTITY_WORKER_ID, IDENTITY_WORKER_HOSTNAMES,
                                                      IDENTITY_CHIPS };
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        char why[256];

        for (size_t f = 0; f < ELEMENTSOF(needed); f++) {
                _cleanup_identity_ struct identity i = IDENTITY_NULL;

                make_slice(&i);
                set(&i, needed[f], NULL);
                ASSERT_EQ(environment_build(&i, FRAMEWORK_JAX, NULL, 0, &e, why), -ENODATA);
                ASSERT_TRUE(strstr(why, identity_field_name(needed[f])) != NULL);
                ASSERT_TRUE(strstr(why, "identity.conf.d") != NULL);
                ASSERT_TRUE(e.entries == NULL);
        }
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        make_slice(&i);
        set(&i, IDENTITY_CHIPS, "3");
        ASSERT_EQ(environment_build(&i, FRAMEWORK_JAX, NULL, 0, &e, why), -ENODATA);
        set(&i, IDENTITY_CHIPS, "8");
        set(&i, IDENTITY_TOPOLOGY, "4x2");
        ASSERT_EQ(environment_build(&i, FRAMEWORK_JAX, NULL, 0, &e, why), -ENODATA);
}

static void test_users_values_stand(void) {
        static const char *const user[] = { "TPU_WORKER_ID=7", "MY_TOKEN=secret",  "JAX_PLATFORMS=cpu",
                                            "EMPTY=",          "TPU_NAME=slice-a", "MY_TOKEN=later" };
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        char why[256];

        make_slice(&i);
        ASSERT_OK(environment_build(&i, FRAMEWORK_JAX, user, ELEMENTSOF(user), &e, why));
        expect(&e, "TPU_WORKER_ID", "7");
        expect(&e, "JAX_PLATFORMS", "cpu");
        expect(&e, "MY_TOKEN", "later");
        expect(&e, "EMPTY", "");
        ASSERT_STREQ(get(&e, "TPU_WORKER_ID")->conflict,
                     "yours '7' kept, ours would be '3' (worker-id from /etc/x.conf:5)");
        ASSERT_TRUE(strstr(get(&e, "JAX_PLATFORMS")->conflict, "'tpu,cpu'") != NULL);
        ASSERT_TRUE(get(&e, "TPU_NAME")->conflict == NULL);
        ASSERT_TRUE(get(&e, "TPU_TOPOLOGY")->conflict == NULL);
        ASSERT_STREQ(get(&e, "MY_TOKEN")->reason, "set by the user");
}

static void test_hostile_assignments(void) {
        static const char *const bad[] = { "",
                                           "=",
                                           "=x",
                                           "NAME",
                                           "1A=x",
                                           "A B=x",
                                           "A-B=x",
                                           "A=\x1b[31m",
                                           "A=\xff\xfe",
                                           "A=\xc0\xaf",
                                           "A=\xed\xa0\x80",
                                           "A=\xf5\x80\x80\x80",
                                           "A=\xe2\x82",
                                           "\xff=x",
                                           "B\n=1" };
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        _cleanup_free_ char *huge = malloc(ENVIRONMENT_ASSIGNMENT_MAX + 2);
        const char *user;
        char why[256];

        for (size_t k = 0; k < ELEMENTSOF(bad); k++) {
                ASSERT_EQ(environment_build(&i, FRAMEWORK_PLAIN, &bad[k], 1, &e, why), -EINVAL);
                ASSERT_TRUE(environment_text_is_valid(why) && why[0]);
        }
        ASSERT_TRUE(huge != NULL);
        memset(huge, 'x', ENVIRONMENT_ASSIGNMENT_MAX + 1);
        memcpy(huge, "SECRET=", 7);
        huge[ENVIRONMENT_ASSIGNMENT_MAX + 1] = '\0';
        user = huge;
        ASSERT_EQ(environment_build(&i, FRAMEWORK_PLAIN, &user, 1, &e, why), -EINVAL);
        ASSERT_TRUE(strstr(why, "SECRET") != NULL && !strstr(why, "xxx")); /* the name, never the value */
        huge[ENVIRONMENT_ASSIGNMENT_MAX] = '\0';
        ASSERT_OK(environment_build(&i, FRAMEWORK_PLAIN, &user, 1, &e, why));
        environment_clear(&e);
        user = "A=tab\tnewline\n\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80";
        ASSERT_OK(environment_build(&i, FRAMEWORK_PLAIN, &user, 1, &e, why));
}

static void test_frameworks(void) {
        enum framework f;

        ASSERT_OK(framework_parse("jax", &f));
        ASSERT_EQ(f, FRAMEWORK_JAX);
        ASSERT_EQ(framework_parse("", &f), -EINVAL);
        ASSERT_EQ(framework_parse("ray", &f), -EINVAL);
}

TEST_MAIN(test_plain, test_jax, test_jax_needs_all, test_users_values_stand, test_hostile_assignments,
          test_frameworks)
