/* SPDX-License-Identifier: Apache-2.0 */
#include "job_body.h"
#include "test.h"

static int parse(const char *text, struct job_body *b, char why[static JOB_BODY_WHY_MAX]) {
        why[0] = '\0';
        return job_body_parse(text, strlen(text), b, why);
}

static void everything_of_a_run_here(void) {
        _cleanup_job_body_ struct job_body b;
        char why[JOB_BODY_WHY_MAX];

        ASSERT_EQ(parse("{\"name\":\"n\",\"serial\":\"ab\",\"generation\":7,\"user\":\"alice\",\"framework\":\"jax\",\"argv\":[\"a\",\"b c\"],"
                        "\"env\":[\"A=1\"],\"directory\":\"/d\",\"malloc\":\"glibc\",\"restarts\":3,\"grace\":2000000,\"preempt\":\"USR1\","
                        "\"limits\":{\"memlock\":\"infinity\",\"nofile\":9,\"memory\":8,\"memory_total\":16,\"memory_high\":\"infinity\",\"cpus\":\"0-1\",\"numa\":\"0\",\"core\":\"keep\"},"
                        "\"share_devices\":true,\"devices\":\"any\"}",
                        &b, why),
                  0);
        ASSERT_FALSE(b.over_slices);
        ASSERT_STREQ(b.message.name, "n");
        ASSERT_STREQ(b.message.intent, "ab");
        ASSERT_EQ(b.message.generation, 7);
        ASSERT_STREQ(b.message.user, "alice");
        ASSERT_EQ(b.message.n_argv, 2);
        ASSERT_STREQ(b.message.argv[1], "b c");
        ASSERT_EQ(b.message.n_env, 1);
        ASSERT_STREQ(b.message.env[0], "A=1");
        ASSERT_EQ(b.message.restarts, 3);
        ASSERT_EQ(b.message.grace_usec, 2000000);
        ASSERT_STREQ(b.message.preempt->signal, "USR1");
        ASSERT_EQ(b.message.limits->memlock, UINT64_MAX);
        ASSERT_EQ(b.message.limits->nofile, 9);
        ASSERT_EQ(b.message.limits->memory_max, 8);
        ASSERT_EQ(b.message.limits->memory_total, 16);
        ASSERT_EQ(b.message.limits->memory_high, UINT64_MAX);
        ASSERT_STREQ(b.message.limits->cpus, "0-1");
        ASSERT_STREQ(b.message.limits->core, "keep");
        ASSERT_TRUE(b.message.share_devices);
        ASSERT_STREQ(b.message.devices, "any");
}

static void the_least_has_defaults(void) {
        _cleanup_job_body_ struct job_body b;
        char why[JOB_BODY_WHY_MAX];

        ASSERT_EQ(parse("{\"user\":\"alice\",\"argv\":[\"a\"]}", &b, why), 0);
        ASSERT_STREQ(b.message.name, "");
        ASSERT_STREQ(b.message.framework, "plain");
        ASSERT_STREQ(b.message.malloc, "auto");
        ASSERT_STREQ(b.message.preempt->signal, "TERM");
        ASSERT_EQ(b.message.generation, 0);
}

static void over_slices(void) {
        _cleanup_job_body_ struct job_body b;
        char why[JOB_BODY_WHY_MAX];

        ASSERT_EQ(parse("{\"name\":\"n\",\"user\":\"alice\",\"argv\":[\"a\"],\"slices\":[],\"min\":1,\"max\":2,\"late\":\"min\",\"port\":1}", &b,
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
                { "{\"user\":\"alice\"}", "argv is the command" },
                { "{\"user\":\"alice\",\"argv\":[]}", "argv is the command" },
                { "{\"user\":\"alice\",\"argv\":[1]}", "argv must be a list" },
                { "{\"user\":7,\"argv\":[\"a\"]}", "user must be a text" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"grace\":-1}", "grace must be a whole number" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"grace\":3600000001}", "grace must be a whole number" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"colour\":1}", "'colour' is not known" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"secret\":{}}", "'secret' is not known" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"stop\":true}", "'stop' is not known" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"wait\":1}", "'wait' is not known" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"generation\":1}", "needs a name" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"limits\":{\"nofile\":0}}", "limits.nofile must be a number above 0" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"limits\":{\"sky\":1}}", "limits has no 'sky'" },
                { "{\"user\":\"alice\",\"argv\":[\"a\"],\"limits\":{\"cpus\":1}}", "limits.cpus must be a text" },
        };

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                struct job_body b;
                char why[JOB_BODY_WHY_MAX];

                ASSERT_EQ(parse(wrong[i].text, &b, why), -EINVAL);
                if (!strstr(why, wrong[i].why))
                        fprintf(stderr, "%s: '%s' does not say '%s'\n", wrong[i].text, why, wrong[i].why);
                ASSERT_TRUE(strstr(why, wrong[i].why) != NULL);
                ASSERT_TRUE(b.json == NULL);
        }
}

TEST_MAIN(everything_of_a_run_here, the_least_has_defaults, over_slices, what_is_wrong_is_named)
