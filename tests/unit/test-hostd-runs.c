/* SPDX-License-Identifier: Apache-2.0 */
/* Whose line it is, and what changed between two lists of runs. */
#include "launchd_runs.h"
#include "run_log.h"
#include "test.h"

static void test_unit(void) {
        static const char *const refused[] = {
                "sshd.service",
                "tpu-run-.service",
                "tpu-run-train.slice",
                "tpu-run-train.service.evil",
                "xtpu-run-train.service",
                "tpu-run-Train.service",
                "tpu-run--train.service",
                "tpu-run-../x.service",
                "tpu-run-a b.service",
                "tpu-run-",
                "",
        };
        char run[64];

        ASSERT_OK(run_log_name_of_unit("tpu-run-train-7.service", strlen("tpu-run-train-7.service"), run));
        ASSERT_STREQ(run, "train-7");
        for (size_t i = 0; i < ELEMENTSOF(refused); i++)
                ASSERT_EQ(run_log_name_of_unit(refused[i], strlen(refused[i]), run), -EINVAL);
        ASSERT_EQ(run_log_name_of_unit("tpu-run-a\0b.service", 19, run), -EINVAL);
        ASSERT_STREQ(run, "train-7"); /* untouched on failure */
}

static char told[256];
static void note(const char *what, const struct host_run *run) {
        size_t len = strlen(told);

        (void) snprintf(told + len, sizeof(told) - len, "%s%s:%s", len > 0 ? " " : "", what, run->name);
}
static void on_started(const struct host_run *run, void *userdata) {
        (void) userdata;
        note("started", run);
}
static void on_exited(const struct host_run *run, void *userdata) {
        (void) userdata;
        note("exited", run);
}
static const struct launchd_runs_handlers handlers = { .started = on_started, .exited = on_exited };

static void add(struct host_runs *l, const char *name, const char *state, usec_t started, usec_t ended) {
        struct host_run *run = &l->runs[l->n++];

        *run = (struct host_run) { .started_real = started, .ended_real = ended };
        (void) snprintf(run->name, sizeof(run->name), "%s", name);
        (void) snprintf(run->state, sizeof(run->state), "%s", state);
        run->main_pid = streq(state, "running") ? 42 : 0;
}

static const char *compare(const struct host_runs *old, const struct host_runs *new) {
        told[0] = 0;
        launchd_runs_compare(old, new, 1000, &handlers, NULL);
        return told;
}

static void test_compare(void) {
        struct host_runs *l = calloc(6, sizeof(*l));

        ASSERT_TRUE(l);
        /* l[0] is empty: the first answer. What was over, or had started, before the agent did is no news.
         */
        add(&l[1], "old", "exited", 100, 900);
        add(&l[1], "running", "running", 500, 0);
        ASSERT_STREQ(compare(&l[0], &l[1]), "");
        ASSERT_STREQ(compare(&l[1], &l[1]), "");
        add(&l[2], "running", "exited", 500, 2000);
        add(&l[2], "short", "exited", 1500, 1600); /* came and went between two answers */
        add(&l[2], "new", "starting", 1700, 0);
        /* new: its process is not known yet */
        ASSERT_STREQ(compare(&l[1], &l[2]), "exited:running started:short exited:short");
        add(&l[3], "running", "running", 2500, 0); /* the same name, anew */
        add(&l[3], "new", "running", 1700, 0);
        ASSERT_STREQ(compare(&l[2], &l[3]), "started:running started:new");
        /* It ended while the agent was starting. */
        add(&l[4], "running", "exited", 500, 1200);
        ASSERT_STREQ(compare(&l[0], &l[4]), "exited:running");
        free(l);
}

static void test_names(void) {
        ASSERT_TRUE(run_name_is_valid("a"));
        ASSERT_TRUE(run_name_is_valid("0-train"));
        ASSERT_TRUE(run_name_is_valid("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));   /* 41 */
        ASSERT_FALSE(run_name_is_valid("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")); /* 42 */
        ASSERT_FALSE(run_name_is_valid(""));
        ASSERT_FALSE(run_name_is_valid("-a"));
        ASSERT_FALSE(run_name_is_valid("a/b"));
        ASSERT_FALSE(run_name_is_valid("A"));
}

TEST_MAIN(test_unit, test_compare, test_names)
