/* SPDX-License-Identifier: Apache-2.0 */
/* What one host can make a database keep and do, and what it costs the others. */
#include "store-points.h"

/* One whose old rows are more than can be removed at once: the other's are looked at nevertheless. */
static void one_host_holds_nobody_up(void) {
        struct store *s = fresh();

        push(s, "flood", "m", NOW, 1);
        push(s, "other", "m", NOW - 40 * DAY, 1);
        push(s, "other", "m", NOW, 1);
        (void) ask("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 60000) "
                   "INSERT INTO samples SELECT (1 << 41) + i, x'' FROM n");
        ASSERT_EQ(ask("SELECT count(*) FROM samples WHERE id >> 41 = 1"), 60001);
        tend_all(s, 30, UINT64_MAX, NOW, 1);
        ASSERT_TRUE(ask("SELECT count(*) FROM samples WHERE id >> 41 = 1") > 1);
        ASSERT_TRUE(store_is_behind(s));
        tend_all(s, 30, UINT64_MAX, NOW, 8);
        ASSERT_EQ(ask("SELECT count(*) FROM samples WHERE id >> 41 = 2"), 1);
        ASSERT_TRUE(ask("SELECT count(*) FROM samples WHERE id >> 41 = 1") > 1);
        tend_all(s, 30, UINT64_MAX, NOW, 8);
        ASSERT_EQ(ask("SELECT count(*) FROM samples"), 2);
        ASSERT_FALSE(store_is_behind(s));
        s = store_free(s);
}

/* A backlog of many times in one push, behind what is known already. */
static void a_backlog_in_one_push(void) {
        struct store_metric m = { .service = "s", .attributes = "{}", .unit = "1", .is_int = true };
        char line[200];
        struct store *s = fresh();

        push(s, "h", "a", NOW, 1);
        tend_all(s, 30, UINT64_MAX, NOW, 2); /* folded */
        for (unsigned undone = 0; undone <= 1; undone++) {
                ASSERT_OK(store_begin(s));
                ASSERT_OK(store_mark(s));
                for (unsigned i = 0; i < 6; i++) {
                        m.name = i % 2 ? "a" : undone ? "c" : "b";
                        m.i = 10 + i;
                        m.time = NOW - (6 - i) * 600 * USEC_PER_SEC;
                        ASSERT_OK(store_add_point(s, host(s, "h"), &m));
                }
                if (undone)
                        ASSERT_OK(store_undo(s));
                else
                        ASSERT_OK(store_keep(s));
                ASSERT_OK(store_commit(s));
        }
        ASSERT_STREQ(latest_of(s, "h", line), "a=1@0 b=14@-1200 ");
        ASSERT_EQ(past_of(s, "h", "a").points, 4);
        ASSERT_EQ(past_of(s, "h", "b").points, 3);
        s = store_free(s);
}

/* Nobody has it any more: it goes, and its number is nobody else's. */
static void series_of_nobody_go(void) {
        struct store *s = fresh();
        char line[200];

        push(s, "h", "kept", NOW, 1);
        push(s, "h", "old", NOW - 31 * DAY, 2);
        push(s, "g", "last", NOW, 3);
        tend_all(s, 30, UINT64_MAX, NOW, 8);
        ASSERT_EQ(ask("SELECT count(*) FROM series"), 2);
        ASSERT_EQ(ask("SELECT max(id) FROM series"), 3);
        ASSERT_STREQ(latest_of(s, "h", line), "kept=1@0 ");
        push(s, "h", "old", NOW, 4); /* not by the number that its name had */
        ASSERT_EQ(ask("SELECT id FROM series WHERE name = 'old'"), 4);
        ASSERT_STREQ(latest_of(s, "h", line), "kept=1@0 old=4@0 ");
        tend_all(s, 30, UINT64_MAX, NOW, 8);
        ASSERT_EQ(ask("SELECT count(*) FROM series"), 3);
        s = store_free(s);
}

/* A push whose times jump to and fro: each jump is a row, and a hundred thousand would fit into one. */
static void rows_of_a_push_are_bounded(void) {
        struct store_metric m = { .service = "s", .name = "m", .attributes = "{}", .unit = "", .d = 1 };
        struct store *s = fresh();
        int64_t h;

        ASSERT_OK(store_begin(s));
        h = host(s, "h");
        ASSERT_OK(store_mark(s));
        for (unsigned i = 0; i < STORE_ROWS_OF_PUSH; i++) {
                m.time = NOW - (usec_t) (i % 2) * 600 * USEC_PER_SEC;
                ASSERT_OK(store_add_point(s, h, &m));
        }
        ASSERT_OK(store_add_point(s, h, &m)); /* of the same time */
        m.time = NOW - 3600 * USEC_PER_SEC;
        ASSERT_EQ(store_add_point(s, h, &m), -EDQUOT);
        ASSERT_OK(store_keep(s));
        ASSERT_OK(store_mark(s)); /* another's push */
        ASSERT_OK(store_add_point(s, h, &m));
        ASSERT_OK(store_keep(s));
        ASSERT_OK(store_commit(s));
        ASSERT_EQ(ask("SELECT count(*) FROM samples"), STORE_ROWS_OF_PUSH + 1);
        s = store_free(s);
}

static void add_events(struct store *s, unsigned n) {
        char body[1024] = "\"";
        const struct store_event e = {
                .service = "", .name = "e", .body = body, .attributes = "{}", .time = NOW, .received = NOW
        };

        memset(body + 1, 'x', sizeof(body) - 3);
        body[sizeof(body) - 2] = '"';
        ASSERT_OK(store_begin(s));
        for (unsigned i = 0; i < n; i++)
                ASSERT_OK(store_add_event(s, host(s, "h"), NULL, &e));
        ASSERT_OK(store_commit(s));
}

/* More than can be removed: nothing is taken for a while, and events go, too. A limit that was lowered is no
 * flood: points go first. */
static void a_flood_is_not_kept(void) {
        const uint64_t limit = 1024 * 1024;
        struct store *s = fresh();

        tend_all(s, 30, limit, NOW, 1);
        ASSERT_FALSE(store_is_full(s));
        add_events(s, 4000);
        tend_all(s, 30, limit, NOW, 1);
        ASSERT_TRUE(store_is_full(s) && store_is_behind(s));
        ASSERT_TRUE(ask("SELECT count(*) FROM events") < 4000);
        tend_all(s, 30, limit, NOW, 10);
        ASSERT_FALSE(store_is_full(s));
        ASSERT_TRUE(ask("SELECT count(*) FROM events") > 300);
        s = store_free(s);
        s = fresh();
        add_events(s, 4000);
        s = store_free(s);
        s = opened();
        tend_all(s, 30, limit, NOW, 2);
        ASSERT_FALSE(store_is_full(s));
        ASSERT_EQ(ask("SELECT count(*) FROM events"), 4000);
        s = store_free(s);
}

static void make_directory(void) {
        ASSERT_TRUE(mkdtemp(dir));
}

static void clean(void) {
        static const char *const ends[] = { "", "-wal", "-shm" };
        char file[80];

        for (size_t i = 0; i < ELEMENTSOF(ends); i++) {
                (void) snprintf(file, sizeof(file), "%s%s", path, ends[i]);
                (void) unlink(file);
        }
        (void) rmdir(dir);
}

TEST_MAIN(make_directory, one_host_holds_nobody_up, a_backlog_in_one_push, series_of_nobody_go,
          rows_of_a_push_are_bounded, a_flood_is_not_kept, clean)
