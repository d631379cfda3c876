/* SPDX-License-Identifier: Apache-2.0 */
#include "inside.h"
#include "test.h"

static json_t *run_over(unsigned slices, unsigned hosts) {
        json_t *list = json_array();

        for (unsigned s = 0; s < slices; s++) {
                json_t *h = json_array();
                char name[16];

                snprintf(name, sizeof(name), "s%u", s);
                for (unsigned w = 0; w < hosts; w++)
                        json_array_append_new(h, json_pack("{s:i, s:s, s:[s]}", "worker", (int) w, "host",
                                                           "h", "address", "10.0.0.1"));
                json_array_append_new(list, json_pack("{s:s, s:i, s:o}", "slice", name, "generation", 1,
                                                      "hosts", h));
        }
        return json_pack("{s:i, s:s, s:s, s:i, s:s, s:o, s:[], s:[], s:{s:i, s:s, s:s, s:s, s:[s]}}", "v", 1,
                         "name", "train", "serial", "a",
                         "generation", 1, "state", "running", "slices", list, "waits_for", "history",
                         "intent", "v", 1, "name", "train", "serial", "a",
                         "user", "u", "argv", "x");
}

static json_t *told(unsigned hosts, const char *slice, uint64_t since, bool *ret_due) {
        const struct reader w = { .slice = slice, .host = "h", .since = since, .whole = since == 0 };
        struct answers a = { .epoch = "0123456789abcdef", .lease = 15 };
        struct registry_body *b, *again;
        struct records t = { 0 };
        char why[GANG_WHY_MAX];
        json_t *run = run_over(2, hosts), *answer;
        struct gang *g = NULL;

        ASSERT_OK(records_init(&t));
        ASSERT_OK(gang_new(&gang_default_options, &g));
        ASSERT_OK(gang_load(g, "run/train", run, 1, why));
        ASSERT_OK(records_put(&t, "run/train", run, true, 5));
        *ret_due = answers_is_due(&a, g, &t, &w);
        b = answers_make(&a, g, &t, &w);
        again = answers_make(&a, g, &t, &w);
        ASSERT_TRUE(b && b == again); /* one text for all of a slice */
        answer = json_loads(b->text, 0, NULL);
        ASSERT_TRUE(answer);
        registry_body_unref(b);
        registry_body_unref(again);
        answers_clear(&a);
        records_clear(&t);
        gang_free(g);
        return answer;
}

static void test_large_runs_are_told_in_short(void) {
        static const unsigned sizes[] = { 256, 257 };

        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                bool due;
                json_t *answer = told(sizes[i], "s1", 0, &due);
                const json_t *slices = json_object_get(json_object_get(json_object_get(answer, "records"),
                                                                       "run/train"), "slices");
                const json_t *others = json_object_get(json_array_get(slices, 0), "hosts"),
                        *own = json_object_get(json_array_get(slices, 1), "hosts");

                ASSERT_TRUE(due);
                ASSERT_EQ(json_array_size(others), sizes[i]);
                ASSERT_EQ(json_array_size(own), sizes[i]);
                ASSERT_EQ(json_object_size(json_array_get(own, sizes[i] - 1)), 3);
                ASSERT_EQ(json_object_size(json_array_get(others, 0)), 3);
                ASSERT_EQ(json_object_size(json_array_get(others, 1)), sizes[i] > 256 ? 0 : 3);
                json_decref(answer);
        }
}

static void test_only_what_is_new_and_concerns(void) {
        bool due;
        json_t *answer = told(2, "s0", 4, &due);

        ASSERT_TRUE(due);
        ASSERT_EQ(json_object_size(json_object_get(answer, "records")), 1);
        json_decref(answer);
        answer = told(2, "s0", 5, &due);
        ASSERT_FALSE(due);
        ASSERT_EQ(json_object_size(json_object_get(answer, "records")), 0);
        json_decref(answer);
        answer = told(2, "s9", 4, &due); /* another slice's */
        ASSERT_FALSE(due);
        ASSERT_EQ(json_object_size(json_object_get(answer, "records")), 0);
        json_decref(answer);
}

static void test_what_is_urgent(void) {
        static const struct {
                const char *key, *before, *now;
                bool urgent;
        } rows[] = {
                { "slice/s", NULL, "{\"state\":\"forming\"}", true },
                { "slice/s", "{\"state\":\"forming\",\"missing\":[1]}",
                  "{\"state\":\"forming\",\"missing\":[]}", false },
                { "slice/s", "{\"state\":\"forming\"}", "{\"state\":\"ready\"}", true },
                { "slice/s", "{\"state\":\"ready\",\"generation\":1}",
                  "{\"state\":\"ready\",\"generation\":2}", false },
                { "run/r", "{\"state\":\"waiting\"}", "{\"state\":\"waiting\",\"waits_for\":[1]}", false },
                { "run/r", "{\"generation\":1}", "{\"generation\":2}", true },
                { "order/h", "{}", NULL, true },
                { "order/h", "{}", "{\"cordon\":{}}", true },
                { "run/r", "{}", NULL, false },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                json_t *a = rows[i].before ? json_loads(rows[i].before, 0, NULL) : NULL,
                        *b = rows[i].now ? json_loads(rows[i].now, 0, NULL) : NULL;

                if (record_is_urgent(rows[i].key, a, b) != rows[i].urgent)
                        test_fail(__FILE__, __LINE__, "row %zu", i);
                json_decref(a);
                json_decref(b);
        }
}

/* What is gone is told so for a while; a host that is behind that is sent everything. */
static void test_forgotten_records(void) {
        struct records t = { 0 };
        char key[32];

        ASSERT_OK(records_init(&t));
        ASSERT_OK(records_put(&t, "order/kept", json_object(), true, 1));
        for (unsigned i = 0; i < 1500; i++) {
                snprintf(key, sizeof(key), "order/h%u", i);
                ASSERT_OK(records_put(&t, key, json_object(), true, 2 + 2 * i));
                ASSERT_OK(records_put(&t, key, NULL, true, 3 + 2 * i));
        }
        ASSERT_EQ(t.forgotten, 1024);
        ASSERT_EQ(t.floor, 3 + 2 * (1500 - 1024 - 1));
        ASSERT_TRUE(records_find(&t, "order/kept") && !records_find(&t, "order/h0") &&
                    records_find(&t, "order/h1499"));
        records_clear(&t);
}

static void test_leases_and_waiting(void) {
        struct sessions t = { 0 };
        struct session *s[100];
        usec_t now = 1000 * USEC_PER_SEC;
        unsigned answered = 0;
        int call;

        for (unsigned i = 0; i < 100; i++) {
                ASSERT_OK(sessions_add(&t, "s0", i, &s[i]));
                sessions_renew(&t, s[i], now + i);
                sessions_wait(&t, s[i], &call, now, i * 100 * USEC_PER_MSEC);
        }
        ASSERT_TRUE(sessions_find(&t, "s0", 7) == s[7] && !sessions_find(&t, "s1", 7));
        for (; now < 1011 * USEC_PER_SEC; now += 10 * USEC_PER_MSEC) {
                struct session *due;

                while ((due = sessions_due(&t, now))) {
                        usec_t until = 1000 * USEC_PER_SEC + due->worker * 100 * USEC_PER_MSEC;

                        ASSERT_TRUE(now >= until && now <= until + 2 * WHEEL_SLOT);
                        ASSERT_TRUE(sessions_take_call(&t, due) == &call);
                        answered++;
                }
        }
        ASSERT_EQ(answered, 100);
        ASSERT_EQ(t.waiting, 0);
        ASSERT_EQ(sessions_next(&t), 1000 * USEC_PER_SEC);
        sessions_renew(&t, s[0], now); /* the first is the last now */
        ASSERT_TRUE(t.first == s[1] && t.last == s[0]);
        now += 3600 * USEC_PER_SEC; /* nobody waited for long: nobody is answered early */
        sessions_wait(&t, s[5], &call, now, 10 * USEC_PER_SEC);
        ASSERT_TRUE(!sessions_due(&t, now + 9 * USEC_PER_SEC));
        ASSERT_TRUE(sessions_due(&t, now + 11 * USEC_PER_SEC) == s[5]);
        (void) sessions_take_call(&t, s[5]);
        for (unsigned i = 0; i < 100; i++)
                sessions_drop(&t, s[i]);
        ASSERT_TRUE(!t.first && !t.last && t.n == 0);
}

/* The planner's time goes on whatever becomes of the real clock, and comes near it again. */
static void test_planner_clock(void) {
        struct clock_fixed t = { .boot = 50 * USEC_PER_SEC, .real = 7000 * USEC_PER_SEC };
        struct clock clock = clock_from(&t);
        struct registry r = { .o.clock = &clock };

        ASSERT_EQ(registry_now(&r), 7000 * USEC_PER_SEC);
        t.boot += 10 * USEC_PER_SEC;
        t.real += 10 * USEC_PER_SEC;
        ASSERT_EQ(registry_now(&r), 7010 * USEC_PER_SEC);
        t.real += 3600 * USEC_PER_SEC; /* it jumps: no lease and no wait ends by that */
        ASSERT_EQ(registry_now(&r), 7010 * USEC_PER_SEC);
        t.boot += 10 * USEC_PER_SEC;
        t.real += 10 * USEC_PER_SEC;
        ASSERT_EQ(registry_now(&r), 7021 * USEC_PER_SEC);
        t.real -= 2 * 3600 * USEC_PER_SEC;
        t.boot += 10 * USEC_PER_SEC;
        ASSERT_EQ(registry_now(&r), 7030 * USEC_PER_SEC);
        t.real = 7035 * USEC_PER_SEC; /* set right */
        t.boot += 10 * USEC_PER_SEC;
        ASSERT_EQ(registry_now(&r), 7039 * USEC_PER_SEC);
        t.real += 10 * USEC_PER_SEC;
        t.boot += 10 * USEC_PER_SEC;
        ASSERT_EQ(registry_now(&r), 7048 * USEC_PER_SEC);
}

TEST_MAIN(test_planner_clock, test_large_runs_are_told_in_short, test_only_what_is_new_and_concerns,
          test_what_is_urgent, test_forgotten_records,
          test_leases_and_waiting)
