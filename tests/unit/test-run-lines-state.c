/* SPDX-License-Identifier: Apache-2.0 */
#include "run_lines.h"
#include "state_file.h"
#include "test.h"

#include <fcntl.h>

static char path[64];

static void write_file(const char *text) {
        FILE *f = fopen(path, "we");

        ASSERT_TRUE(f != NULL);
        (void) fputs(text, f);
        (void) fclose(f);
}

static void parts_are_told_by_run_and_invocation(void) {
        struct run_lines_state s = { 0 };

        run_lines_part(&s, "train", "aa")->number = 7;
        ASSERT_EQ(run_lines_part(&s, "train", "bb")->number, 0);
        ASSERT_EQ(run_lines_part(&s, "eval", "aa")->number, 0);
        ASSERT_EQ(run_lines_part(&s, "train", "aa")->number, 7);
        ASSERT_EQ(s.n, 3);
}

static void the_longest_unused_goes(void) {
        struct run_lines_state s = { 0 };
        char run[16];

        for (unsigned i = 0; i < RUN_LINES_PARTS_MAX; i++) {
                (void) snprintf(run, sizeof(run), "r%u", i);
                run_lines_part(&s, run, "aa")->number = i + 1;
        }
        (void) run_lines_part(&s, "r0", "aa");
        (void) run_lines_part(&s, "new", "aa");
        ASSERT_EQ(s.n, RUN_LINES_PARTS_MAX);
        ASSERT_EQ(run_lines_part(&s, "r0", "aa")->number, 1);
        ASSERT_EQ(run_lines_part(&s, "r2", "aa")->number, 3);
        ASSERT_EQ(run_lines_part(&s, "r1", "aa")->number, 0); /* it was the one */
}

static void what_is_saved_is_loaded(void) {
        struct run_lines_state s = { .cursor = "s=1;i=2" }, t;

        run_lines_part(&s, "train", "0123456789abcdef0123456789abcdef")->number = (uint64_t) INT64_MAX;
        run_lines_part(&s, "eval", "-")->number = 3;
        ASSERT_OK(run_lines_save(path, &s));
        ASSERT_OK(run_lines_load(path, &t));
        ASSERT_STREQ(t.cursor, s.cursor);
        ASSERT_EQ(t.n, 2);
        ASSERT_EQ(run_lines_part(&t, "train", "0123456789abcdef0123456789abcdef")->number,
                  (uint64_t) INT64_MAX);
        ASSERT_EQ(run_lines_part(&t, "eval", "-")->number, 3);
}

static void a_damaged_file_is_said_and_empty(void) {
        static const struct state_format format = {
                .what = "run-lines", .version = 1, .max = 4096, .options = { .mode = 0600 }
        };
        static const char *const strange[] = {
                "[]",
                "{\"cursor\": \"x\"}",
                "{\"cursor\": \"\", \"parts\": []}",
                "{\"cursor\": \"x\", \"parts\": [{}]}",
                "{\"cursor\": \"x\", \"parts\": [{\"run\": \"train\", \"invocation\": \"aa\"}]}",
                "{\"cursor\": \"x\", \"parts\": [{\"run\": \"train\", \"invocation\": \"aa\", \"number\": "
                "-1}]}",
                "{\"cursor\": \"x\", \"parts\": [{\"run\": \"../etc\", \"invocation\": \"aa\", \"number\": "
                "1}]}",
                "{\"cursor\": \"x\", \"parts\": [{\"run\": \"t\", \"number\": 1, \"invocation\": "
                "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}]}",
        };
        struct run_lines_state s;

        for (size_t i = 0; i < ELEMENTSOF(strange); i++) {
                ASSERT_OK(state_file_write(AT_FDCWD, path, &format, strange[i], strlen(strange[i])));
                ASSERT_EQ(run_lines_load(path, &s), -EBADMSG);
                ASSERT_TRUE(s.n == 0 && s.cursor[0] == '\0');
        }
        write_file("tpu-run-lines 1\ncursor x\n");
        ASSERT_EQ(run_lines_load(path, &s), -ENOENT);
        ASSERT_EQ(run_lines_load(path, &s), -ENOENT);
}

static void name_file(void) {
        (void) snprintf(path, sizeof(path), "/tmp/test-run-lines-%d", (int) getpid());
}

TEST_MAIN(name_file, parts_are_told_by_run_and_invocation, the_longest_unused_goes, what_is_saved_is_loaded,
          a_damaged_file_is_said_and_empty)
