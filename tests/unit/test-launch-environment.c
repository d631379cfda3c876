/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a run that is there: for its user and root, without the values of secrets. */
#include "answer.h"
#include "launch-bench.h"

static void test_names_of_secrets(void) {
        static const char *const secret[] = { "WANDB_API_KEY=1", "HF_TOKEN=1", "db_password=1",
                                              "AWS_SECRET_ACCESS=1", "GOOGLE_APPLICATION_CREDENTIALS=/x",
                                              "KEY",
                                              "key=1" };
        static const char *const plain[] = { "PATH=/key", "KEYBOARD=1", "A=TOKEN",
                                             "LIBTPU_INIT_ARGS=--secret", "TPU_WORKER_ID=0", "" };

        for (size_t i = 0; i < ELEMENTSOF(secret); i++)
                ASSERT_TRUE(variable_is_secret(secret[i]));
        for (size_t i = 0; i < ELEMENTSOF(plain); i++)
                ASSERT_FALSE(variable_is_secret(plain[i]));
}

static int ask_environment(struct bench *b, const char *name) {
        Local__EnvironmentRequest q = LOCAL__ENVIRONMENT_REQUEST__INIT;
        _cleanup_free_ char *copy = strdup(name);

        q.name = copy;
        return ask(b, LOCAL__KIND__KIND_ENVIRONMENT_REQUEST, &q.base);
}

static void test_what_a_run_has(void) {
        char *env[] = { (char[]){ "MINE=a b" }, (char[]){ "MY_TOKEN=s3cret" } };
        _cleanup_bench_ struct bench b;
        Local__EnvironmentReply *r;
        bool found = false;
        int fd;

        bench_init(&b);
        fd = ask_run(&b, "train", env, 2);
        runs_unit_events.started("train", "done", b.runs);
        (void) close(fd);
        fd = ask_environment(&b, "train");
        r = (Local__EnvironmentReply *) take(&b, fd, LOCAL__KIND__KIND_ENVIRONMENT_REPLY,
                                             &local__environment_reply__descriptor);
        (void) close(fd);
        for (size_t i = 0; i < r->n_env; i++) {
                found = found || streq(r->env[i], "MINE=a b");
                ASSERT_FALSE(strstr(r->env[i], "s3cret"));
        }
        ASSERT_TRUE(found);
        ASSERT_EQ(r->n_hidden, 1);
        ASSERT_STREQ(r->hidden[0], "MY_TOKEN");
        local__environment_reply__free_unpacked(r, NULL);
        expect_error(&b, ask_environment(&b, "ghost"), ENOENT, "there is no run 'ghost'");
}

static void test_for_nobody_else(void) {
        struct caller other = { .uid = 1234567, .name = "eve", .member = true },
                remote = { .uid = 990, .name = "tpu-hostd", .remote = true };
        _cleanup_bench_ struct bench b;
        struct problem p = { 0 };
        int fd;

        bench_init(&b);
        fd = ask_run(&b, "train", NULL, 0);
        runs_unit_events.started("train", "done", b.runs);
        (void) close(fd);
        ASSERT_TRUE(environment_is_anothers(b.runs, &other, "train"));
        ASSERT_FALSE(environment_is_anothers(b.runs, &other, "ghost"));
        ASSERT_FALSE(environment_is_anothers(b.runs, &(struct caller){ .uid = getuid() }, "train"));
        ASSERT_EQ(answer_environment(b.runs, NULL, &other, "train", &p), -EACCES);
        ASSERT_TRUE(strstr(p.text, "eve may not see"));
        ASSERT_EQ(answer_environment(b.runs, NULL, &remote, "train", &p), -EACCES);
        ASSERT_EQ(answer_environment(b.runs, NULL, &other, "ghost", &p), -EACCES);
}

int main(void) {
        static void (*const tests[])(void) = { test_names_of_secrets, test_what_a_run_has,
                                               test_for_nobody_else };

        return bench_main(tests, ELEMENTSOF(tests));
}
