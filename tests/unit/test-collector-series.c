/* SPDX-License-Identifier: Apache-2.0 */
#include "store-points.h"

/* --- The encoding ---------------------------------------------------------------------------- */

static int64_t any_number(void) {
        return (int64_t) ((uint64_t) rand() << (rand() % 33)) * (rand() % 2 ? 1 : -1);
}

static struct stored_sample any_sample(void) {
        struct stored_sample s = { .series = 1 + rand() % 5000, .ms = POINTS_EPOCH_MS + rand() % 1000 };

        if (rand() % 2) {
                s.is_int = true;
                s.i = any_number();
                s.d = (double) s.i;
        } else
                s.d = rand() % 9 ? (double) any_number() / 7 : (double) INFINITY;
        return s;
}

static void samples_come_back(void) {
        struct samples_out o = { 0 };
        struct stored_sample in[500];

        srand(test_seed());
        for (unsigned round = 0; round < 200; round++) {
                struct samples_in reader;
                struct stored_sample out;

                samples_begin(&o, POINTS_EPOCH_MS + 5);
                for (size_t i = 0; i < ELEMENTSOF(in); i++) {
                        in[i] = any_sample();
                        ASSERT_OK(samples_put(&o, &in[i]));
                }
                reader = samples_read(o.data, o.len, POINTS_EPOCH_MS + 5);
                for (size_t i = 0; i < ELEMENTSOF(in); i++) {
                        ASSERT_EQ(samples_next(&reader, &out), 1);
                        ASSERT_EQ(out.series, in[i].series);
                        ASSERT_EQ(out.ms, in[i].ms);
                        ASSERT_EQ(out.is_int, in[i].is_int);
                        ASSERT_TRUE(memcmp(&out.d, &in[i].d, sizeof(double)) == 0);
                        ASSERT_TRUE(!in[i].is_int || out.i == in[i].i);
                }
                ASSERT_EQ(samples_next(&reader, &out), 0);
                for (unsigned i = 0; i < 50; i++) { /* damaged: anything but a crash or an endless run */
                        reader = samples_read(o.data, (size_t) rand() % (o.len + 1), 0);
                        o.data[(size_t) rand() % o.len] ^= (uint8_t) (1 << rand() % 8);
                        for (size_t n = 0; samples_next(&reader, &out) > 0; n++)
                                ASSERT_TRUE(n < o.len);
                }
        }
        samples_clear(&o);
}

/* --- Through the store ----------------------------------------------------------------------- */

/* Points stay as they came for as long as they are kept, and go one by one. */
static void points_stay_as_they_came(void) {
        struct store *s = fresh();
        struct past w;

        for (int i = 0; i < 360; i++) /* an hour, and one that only counts there */
                push(s, "h", "m", NOW + (usec_t) i * 10 * USEC_PER_SEC, i);
        push(s, "g", "m", NOW, 7);
        tend_all(s, 30, UINT64_MAX, NOW + 29 * DAY, 20);
        w = past_of(s, "h", "m");
        ASSERT_EQ(w.series, 1);
        ASSERT_EQ(w.points, 360);
        ASSERT_EQ(w.first, NOW);
        tend_all(s, 30, UINT64_MAX, NOW + 30 * DAY + 1800 * USEC_PER_SEC, 20);
        w = past_of(s, "h", "m");
        ASSERT_EQ(w.points, 180);
        ASSERT_EQ(w.first, NOW + 1800 * USEC_PER_SEC);
        tend_all(s, 30, UINT64_MAX, NOW + 32 * DAY, 20);
        ASSERT_EQ(past_of(s, "h", "m").points, 0);
        s = store_free(s);
}

static void latest_survives_all_of_it(void) {
        char line[200];
        struct store *s = fresh();

        push(s, "h", "a", NOW, 1);
        push(s, "h", "b", NOW, 2);
        push(s, "h", "a", NOW + USEC_PER_SEC, 3);
        ASSERT_STREQ(latest_of(s, "h", line), "a=3@1 b=2@0 ");
        tend_all(s, 30, UINT64_MAX, NOW + DAY, 5); /* folded */
        ASSERT_STREQ(latest_of(s, "h", line), "a=3@1 b=2@0 ");
        push(s, "h", "a", NOW - USEC_PER_SEC, 9); /* late, known better */
        push(s, "h", "c", NOW - USEC_PER_SEC, 4); /* late, not known */
        ASSERT_STREQ(latest_of(s, "h", line), "a=3@1 b=2@0 c=4@-1 ");
        tend_all(s, 30, UINT64_MAX, NOW + 2 * DAY, 5);
        s = store_free(s);
        s = opened();
        ASSERT_STREQ(latest_of(s, "h", line), "a=3@1 b=2@0 c=4@-1 ");
        push(s, "h", "a", NOW + 31 * DAY, 5);
        tend_all(s, 30, UINT64_MAX, NOW + 31 * DAY,
                 5); /* b and c are silent for longer than anything is kept */
        ASSERT_STREQ(latest_of(s, "h", line), "a=5@2678400 ");
        s = store_free(s);
}

/* A number that was given to a series inside something undone must not stand for it later. */
static void undone_series_are_forgotten(void) {
        struct store_metric m = { .service = "s",
                                  .name = "gone",
                                  .attributes = "{}",
                                  .unit = "",
                                  .is_int = true,
                                  .i = 1,
                                  .time = NOW,
                                  .key = "k1",
                                  .key_len = 2 };
        char line[200];
        struct store *s = fresh();
        int64_t h;

        for (unsigned whole = 0; whole < 2; whole++) {
                ASSERT_OK(store_begin(s));
                h = host(s, "h");
                ASSERT_OK(store_mark(s));
                ASSERT_OK(store_add_point(s, h, &m));
                ASSERT_TRUE(store_knows_series(s, "k1", 2));
                if (whole)
                        store_rollback(s);
                else {
                        ASSERT_OK(store_undo(s));
                        ASSERT_OK(store_commit(s));
                }
                ASSERT_FALSE(store_knows_series(s, "k1", 2));
        }
        push(s, "h", "other", NOW, 5); /* gets the number */
        push(s, "h", "gone", NOW, 6);
        ASSERT_STREQ(latest_of(s, "h", line), "gone=6@0 other=5@0 ");
        s = store_free(s);
}

/* A host whose clock stands still, in 1970 even: each of its pushes has the same time, and all are kept. */
static void a_clock_that_stands_still(void) {
        struct store *s = fresh();

        for (int i = 0; i < 3000; i++)
                push(s, "h", "m", i % 2 ? 5 : NOW, i);
        ASSERT_EQ(past_of(s, "h", "m").points, 3000);
        s = store_free(s);
}

static void bytes_are_held(void) {
        const struct store_event e = {
                .service = "", .name = "e", .body = "1", .attributes = "{}", .time = NOW, .received = NOW
        };
        struct store_size size;
        struct store *s = fresh();
        char metric[16];
        uint64_t full;

        ASSERT_OK(store_begin(s));
        for (int minute = 0; minute < 600; minute++)
                for (int i = 0; i < 100; i++) {
                        struct store_metric m = { .service = "s",
                                                  .name = metric,
                                                  .attributes = "{}",
                                                  .unit = "",
                                                  .d = rand() / 7.0,
                                                  .time = NOW + (usec_t) minute * 60 * USEC_PER_SEC,
                                                  .key = metric };

                        m.key_len = (size_t) snprintf(metric, sizeof(metric), "m%d", i);
                        ASSERT_OK(store_add_point(s, host(s, minute % 2 ? "h" : "g"), &m));
                }
        ASSERT_OK(store_add_event(s, host(s, "h"), NULL, &e));
        ASSERT_OK(store_commit(s));
        ASSERT_OK(store_size(s, &size));
        ASSERT_TRUE(size.used > 600000);
        /* what is there is ten hours old, and a tenth of it too much: known after a round, not after all of
         * RetainDays */
        tend_all(s, 30, size.used / 10 * 9, NOW + 600 * 60 * USEC_PER_SEC, 16);
        full = size.used;
        ASSERT_OK(store_size(s, &size));
        ASSERT_TRUE(size.used <= full / 10 * 9 && size.used > full / 10 * 7);
        tend_all(s, 30, 300000, NOW + 600 * 60 * USEC_PER_SEC, 400);
        ASSERT_OK(store_size(s, &size));
        ASSERT_TRUE(size.used <= 300000 && size.squeeze < 1);
        ASSERT_TRUE(past_of(s, "h", "m1").last > NOW + 500 * 60 * USEC_PER_SEC); /* the oldest went */
        tend_all(s, 30, 300000, NOW + 600 * 60 * USEC_PER_SEC, 100);
        ASSERT_OK(store_size(s, &size));
        ASSERT_TRUE(size.file < 6 * 1024 * 1024);
        s = store_free(s);
}

static int on_kept(const char *key, const char *value, void *userdata) {
        (void) snprintf(userdata, 100, "%s=%s", key, value);
        return 0;
}

static void registry_goes_on(void) {
        struct store *s = fresh();
        char line[100] = "";

        ASSERT_OK(store_begin(s));
        ASSERT_OK(store_put_registry(s, "slot/s0/1", "{}"));
        ASSERT_OK(store_put_registry(s, "slot/s0/1", "{\"v\":1}"));
        ASSERT_OK(store_put_registry(s, "slot/s0/2", "{}"));
        ASSERT_OK(store_put_registry(s, "slot/s0/2", NULL));
        ASSERT_OK(store_commit(s));
        s = store_free(s);
        s = opened();
        ASSERT_OK(store_list_registry(s, on_kept, line));
        ASSERT_STREQ(line, "slot/s0/1={\"v\":1}");
        s = store_free(s);
}

/* Nobody reads a database of an older schema: it is moved aside. */
static void an_older_schema_is_put_aside(void) {
        struct store *s = fresh();
        char aside[300], why[256];

        push(s, "h", "a", NOW, 1);
        s = store_free(s);
        (void) ask("PRAGMA user_version = 7");
        ASSERT_OK(store_open(path, &s, aside, why));
        ASSERT_STREQ(aside + strlen(path), ".damaged");
        ASSERT_OK(access(aside, F_OK));
        ASSERT_EQ(ask("PRAGMA user_version"), STORE_SCHEMA);
        ASSERT_EQ(ask("SELECT count(*) FROM hosts"), 0);
        s = store_free(s);
        ASSERT_OK(unlink(aside));
}

static void damage_is_put_aside(void) {
        struct store *s = fresh();
        char aside[300], why[256];
        FILE *f;

        push(s, "h", "a", NOW, 1);
        s = store_free(s);
        for (unsigned i = 0; i < 3; i++) { /* the third goes over the second */
                f = fopen(path, "w");
                ASSERT_TRUE(f);
                for (unsigned k = 0; k < 2000; k++)
                        fputs("not a database ", f);
                ASSERT_OK(fclose(f));
                ASSERT_OK(store_open(path, &s, aside, why));
                ASSERT_STREQ(aside + strlen(path), i ? ".damaged-again" : ".damaged");
                ASSERT_OK(access(aside, F_OK));
                push(s, "h", "a", NOW, 1);
                s = store_free(s);
        }
        (void) unlink(aside);
        (void) snprintf(aside, sizeof(aside), "%s.damaged", path);
        (void) unlink(aside);
        store_free(fresh());
        (void) unlink(path);
        (void) rmdir(dir);
}

static void make_directory(void) {
        ASSERT_TRUE(mkdtemp(dir));
}

TEST_MAIN(make_directory, samples_come_back, points_stay_as_they_came,
          latest_survives_all_of_it, undone_series_are_forgotten, a_clock_that_stands_still, bytes_are_held,
          an_older_schema_is_put_aside, registry_goes_on, damage_is_put_aside)
