/* SPDX-License-Identifier: Apache-2.0 */
#include "store-support.h"
#include "test.h"

#define DAY (86400 * USEC_PER_SEC)

static char dir[] = "/tmp/test-lines-XXXXXX";
static int64_t hosts[2];

static struct store *opened(void) {
        struct store *s = NULL;
        char aside[300], why[256];

        (void) snprintf(path, sizeof(path), "%s/c.db", dir);
        for (size_t i = 0; i < 3; i++) {
                static const char *const ends[] = { "", "-wal", "-shm" };
                char file[80];

                (void) snprintf(file, sizeof(file), "%s%s", path, ends[i]);
                (void) unlink(file);
        }
        ASSERT_OK(store_open(path, &s, aside, why));
        ASSERT_OK(store_begin(s));
        ASSERT_OK(store_find_host(s, "h0", 1, &hosts[0]));
        ASSERT_OK(store_find_host(s, "h1", 1, &hosts[1]));
        ASSERT_OK(store_commit(s));
        return s;
}

static int add(struct store *s, unsigned h, const char *run, const char *invocation, int64_t number,
               const char *text,
               usec_t now) {
        const struct store_line l = { .run = run,
                                      .invocation = invocation,
                                      .text = text,
                                      .slice = h == 0 ? "s0" : NULL,
                                      .worker_id = h == 0 ? 3 : -1,
                                      .generation = -1,
                                      .number = number,
                                      .priority = 6,
                                      .time = now };
        int r;

        ASSERT_OK(store_begin(s));
        r = store_add_line(s, hosts[h], &l, now);
        ASSERT_OK(store_commit(s));
        return r;
}

struct seen {
        char text[256];
        int64_t missing, last;
};

static int on_line(const struct store_line_row *l, void *userdata) {
        struct seen *seen = userdata;
        size_t n = strlen(seen->text);

        (void) snprintf(seen->text + n, sizeof(seen->text) - n, "%s:%s ", l->host, l->line.text);
        seen->missing += l->missing;
        seen->last = l->id;
        return 0;
}

static struct seen list(struct store *s, const struct store_line_filter *f) {
        struct seen seen = { 0 };

        ASSERT_OK(store_list_lines(s, f, on_line, &seen));
        return seen;
}

static void repeats_are_dropped_and_holes_are_counted(void) {
        struct store *s = opened();
        struct store_line_filter all = { .run = "train", .worker = -1, .limit = 100 };
        struct seen seen;

        ASSERT_EQ(add(s, 0, "train", "aa", 3, "c", 10), 1); /* two were lost before */
        ASSERT_EQ(add(s, 0, "train", "aa", 3, "c", 11), 0);
        ASSERT_EQ(add(s, 0, "train", "aa", 2, "b", 11), 0);
        ASSERT_EQ(add(s, 0, "train", "aa", 4, "d", 11), 1);
        ASSERT_EQ(add(s, 1, "train", "aa", 1, "other host", 12), 1);
        ASSERT_EQ(add(s, 0, "train", "bb", 1, "again", 13), 1);
        ASSERT_EQ(add(s, 0, "eval", "cc", 1, "x", 13), 1);
        ASSERT_EQ(add(s, 0, "train", "aa", 10, "j", 14), 1);
        seen = list(s, &all);
        ASSERT_STREQ(seen.text, "h0:c h0:d h1:other host h0:again h0:j ");
        ASSERT_EQ(seen.missing, 2 + 5);
        all.since = seen.last;
        ASSERT_STREQ(list(s, &all).text, "");
        all.since = -1;
        all.limit = 2;
        ASSERT_STREQ(list(s, &all).text, "h0:j h0:again ");
        all = (struct store_line_filter) { .run = "train", .worker = 3, .slice = "s0", .limit = 100 };
        ASSERT_STREQ(list(s, &all).text, "h0:c h0:d h0:again h0:j ");
        all = (struct store_line_filter) { .run = "train", .worker = -1, .host = "h1", .limit = 100 };
        ASSERT_STREQ(list(s, &all).text, "h1:other host ");
        s = store_free(s);
}

static void tend(struct store *s, uint64_t line_bytes, usec_t now) {
        const struct store_retention r = { .days = 2, .bytes = 1 << 30, .line_bytes = line_bytes };
        unsigned n;

        for (unsigned i = 0; i < 8; i++)
                ASSERT_OK(store_tend(s, &r, now, &n));
}

static void old_and_too_many_go_from_the_oldest_on(void) {
        struct store *s = opened();
        struct store_line_filter all = { .run = "train", .worker = -1, .limit = 100 };
        uint64_t bytes;
        usec_t now = 100 * DAY;

        ASSERT_EQ(add(s, 0, "train", "aa", 1, "old", now - 3 * DAY), 1);
        for (int64_t i = 2; i <= 6; i++)
                ASSERT_EQ(add(s, 0, "train", "aa", i, "ten bytes.", now), 1);
        ASSERT_OK(store_line_bytes(s, &bytes));
        ASSERT_EQ(bytes, 53);
        tend(s, 1000, now);
        ASSERT_OK(store_line_bytes(s, &bytes));
        ASSERT_EQ(bytes, 50);
        tend(s, 25, now);
        ASSERT_OK(store_line_bytes(s, &bytes));
        ASSERT_EQ(bytes, 20);
        ASSERT_STREQ(list(s, &all).text, "h0:ten bytes. h0:ten bytes. ");
        ASSERT_EQ(add(s, 0, "train", "aa", 6, "x", now), 0); /* still known as a repeat */
        tend(s, 0, now);
        ASSERT_EQ(ask("SELECT count(*) FROM run_lines"), 0);
        ASSERT_EQ(ask("SELECT count(*) FROM run_parts"), 1);
        tend(s, 0, now + 100 * DAY);
        ASSERT_EQ(ask("SELECT count(*) FROM run_parts"), 0);
        s = store_free(s);
}

static int add_in_one(struct store *s, unsigned h, const char *run, int64_t number, const char *text) {
        const struct store_line l = { .run = run, .invocation = "aa", .text = text, .worker_id = -1,
                                      .generation = -1, .number = number, .time = 100 * DAY };

        return store_add_line(s, hosts[h], &l, 100 * DAY);
}

/* Lines without a text take no bytes, and rows of the database. */
static void empty_lines_are_bounded(void) {
        struct store *s = opened();
        struct store_line_filter all = { .run = "train", .worker = -1, .limit = 100000 };

        ASSERT_OK(store_begin(s));
        for (int64_t i = 1; i <= 9000; i++)
                ASSERT_EQ(add_in_one(s, 0, "train", i, ""), 1);
        ASSERT_EQ(add_in_one(s, 0, "train", 9001, "last"), 1);
        ASSERT_OK(store_commit(s));
        tend(s, 2000 * STORE_LINE_LEAST, 100 * DAY);
        ASSERT_EQ(ask("SELECT count(*) FROM run_lines"), 3000); /* 1,000 in any case */
        all.since = -1;
        all.limit = 1;
        ASSERT_STREQ(list(s, &all).text, "h0:last ");
        s = store_free(s);
}

/* Each start of a run is a row that outlives its lines. */
static void starts_of_runs_are_bounded(void) {
        struct store *s = opened();

        for (unsigned push = 0; push < 20; push++) {
                ASSERT_OK(store_begin(s));
                ASSERT_OK(store_mark(s));
                for (unsigned i = 0; i <= STORE_PARTS_OF_PUSH; i++) {
                        char run[32];

                        (void) snprintf(run, sizeof(run), "run-%u-%u", push, i);
                        ASSERT_EQ(add_in_one(s, 0, run, 1, ""), i < STORE_PARTS_OF_PUSH ? 1 : -EDQUOT);
                }
                ASSERT_OK(store_keep(s));
                ASSERT_OK(store_commit(s));
        }
        ASSERT_EQ(add(s, 1, "another's", "aa", 1, "", 1), 1);
        ASSERT_TRUE(ask("SELECT count(*) FROM run_parts") <= STORE_PARTS_EMPTY + STORE_PARTS_OF_PUSH + 1);
        ASSERT_EQ(ask("SELECT count(*) FROM run_parts WHERE run = 'another''s'"), 1);
        s = store_free(s);
        (void) unlink(path);
        (void) rmdir(dir);
}

static void make_directory(void) {
        ASSERT_TRUE(mkdtemp(dir));
}

TEST_MAIN(make_directory, repeats_are_dropped_and_holes_are_counted, old_and_too_many_go_from_the_oldest_on,
          empty_lines_are_bounded, starts_of_runs_are_bounded)
