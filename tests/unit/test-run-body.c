/* SPDX-License-Identifier: Apache-2.0 */
#include "run_record.h"
#include "test.h"

static int parse(const char *text, struct run_body *b, char why[static RUN_WHY_MAX]) {
        why[0] = '\0';
        return run_body_parse(text, strlen(text), b, why);
}

static void everything_of_a_run_here(void) {
        _cleanup_run_body_ struct run_body b;
        char why[RUN_WHY_MAX];

        ASSERT_EQ(parse("{\"name\":\"n\",\"serial\":\"ab\",\"generation\":7,\"user\":\"alice\","
                        "\"framework\":\"jax\",\"argv\":[\"a\",\"b c\"],"
                        "\"env\":[\"A=1\"],\"directory\":\"/d\",\"malloc\":\"glibc\",\"restarts\":3,"
                        "\"grace\":2000000,\"preempt\":\"USR1\","
                        "\"memlock\":\"infinity\",\"nofile\":9,\"memory\":8,\"memory_total\":16,"
                        "\"memory_high\":\"infinity\",\"cpus\":\"0-1\",\"numa\":\"0\",\"core\":\"keep\","
                        "\"share_devices\":true,\"devices\":\"any\"}",
                        &b, why),
                  0);
        ASSERT_FALSE(b.over_slices);
        ASSERT_STREQ(b.spec->name, "n");
        ASSERT_STREQ(b.serial, "ab");
        ASSERT_EQ(b.generation, 7);
        ASSERT_STREQ(b.spec->user, "alice");
        ASSERT_EQ(b.spec->n_argv, 2);
        ASSERT_STREQ(b.spec->argv[1], "b c");
        ASSERT_EQ(b.spec->n_env, 1);
        ASSERT_STREQ(b.spec->env[0], "A=1");
        ASSERT_EQ(b.spec->restarts, 3);
        ASSERT_EQ(b.spec->grace, 2000000);
        ASSERT_STREQ(b.spec->preempt, "USR1");
        ASSERT_EQ(b.spec->memlock, UINT64_MAX);
        ASSERT_EQ(b.spec->nofile, 9);
        ASSERT_EQ(b.spec->memory, 8);
        ASSERT_EQ(b.spec->memory_total, 16);
        ASSERT_EQ(b.spec->memory_high, UINT64_MAX);
        ASSERT_STREQ(b.spec->cpus, "0-1");
        ASSERT_STREQ(b.spec->core, "keep");
        ASSERT_TRUE(b.spec->share_devices);
        ASSERT_STREQ(b.spec->devices, "any");
}

static void the_least_has_defaults(void) {
        _cleanup_run_body_ struct run_body b;
        char why[RUN_WHY_MAX];

        ASSERT_EQ(parse("{\"user\":\"alice\",\"argv\":[\"a\"]}", &b, why), 0);
        ASSERT_STREQ(b.spec->name, "");
        ASSERT_STREQ(b.spec->framework, "plain");
        ASSERT_STREQ(b.spec->malloc, "auto");
        ASSERT_STREQ(b.spec->preempt, "TERM");
        ASSERT_EQ(b.generation, 0);
}

static void over_slices(void) {
        _cleanup_run_body_ struct run_body b;
        char why[RUN_WHY_MAX];

        ASSERT_EQ(parse("{\"name\":\"n\",\"user\":\"alice\",\"argv\":[\"a\"],\"slices\":[],\"min\":1,"
                        "\"max\":2,\"late\":\"min\",\"port\":1}", &b,
                        why),
                  0);
        ASSERT_TRUE(b.over_slices);
}

static void what_is_wrong_is_named(void) {
        static const struct {
                const char *text, *why;
        } wrong[] = {
                { "", "the body is no JSON" },
                { "{\"user\":\"a\",\"user\":\"b\"}", "duplicate" },
                { "[1]", "no JSON object" },
                { "{\"argv\":[\"a\"]}", "user says whose run it is" },
                { "{\"user\":\"alice\"}", "argv is missing" },
                { "{\"user\":\"alice\",\"argv\":[]}", "argv is missing" },
                { "{\"user\":\"alice\",\"argv\":[1]}", "argv is not a list" },
                { "{\"user\":7,\"argv\":[\"a\"]}", "user is not a text" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"grace\":-1}", "grace is not a span" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"grace\":3600000001}",
                  "grace '3600000001' is not a span" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"colour\":1}", "'colour' is no key" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"secret\":{}}", "'secret' is no key" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"stop\":true}", "'stop' is no key" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"wait\":1}", "wait is for runs over slices" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"generation\":1}", "needs a name" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"nofile\":0}",
                  "nofile '0' is not a whole number from 1" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"limits\":{\"sky\":1}}", "'limits' is no key" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"cpus\":1}", "cpus is not a list of numbers" },
        };

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                struct run_body b;
                char why[RUN_WHY_MAX];

                ASSERT_EQ(parse(wrong[i].text, &b, why), -EINVAL);
                if (!strstr(why, wrong[i].why))
                        fprintf(stderr, "%s: '%s' does not say '%s'\n", wrong[i].text, why, wrong[i].why);
                ASSERT_TRUE(strstr(why, wrong[i].why) != NULL);
                ASSERT_TRUE(b.spec == NULL);
        }
}

TEST_MAIN(everything_of_a_run_here, the_least_has_defaults, over_slices, what_is_wrong_is_named)
