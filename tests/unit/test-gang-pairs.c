/* SPDX-License-Identifier: Apache-2.0 */
/* The bandwidth of pairs, as the planner asks for it and judges what hosts report. */
#include "gang_world.h"
#include "json_text.h"
#include "pair_rounds.h"

#define MINUTE (60 * USEC_PER_SEC)
#define KEY "pairs/s0"

static void world_init(struct world *w, bool policy) {
        struct gang_options o = gang_default_options;

        o.preflight_pairs = policy;
        *w = (struct world){ .now = 1000 * MINUTE, .slices = 1, .hosts = 4 };
        ASSERT_OK(gang_new(&o, &w->g));
        for (unsigned h = 0; h < w->hosts; h++)
                ASSERT_OK(world_say(w, 0, h));
        world_step(w);
}

static int want(struct world *w, char why[static GANG_WHY_MAX]) {
        json_t *v = json_pack("{s:i, s:s}", "v", 1, "by", "somebody");
        int r = gang_want(w->g, KEY, v, w->now, why);

        json_decref(v);
        world_step(w);
        return r;
}

static const json_t *record(const struct world *w) {
        return gang_record(w->g, KEY);
}

/* The host reports what it measured; of slow the rate is a tenth. */
static void report(struct world *w, unsigned h, int slow, const char *why) {
        json_t *m = world_member(w, 0, h), *list = json_array();
        char reason[GANG_WHY_MAX];

        for (unsigned round = 0; round < pair_rounds(w->hosts) && !why; round++) {
                int from = pair_partner(w->hosts, h, round);

                json_array_append_new(list, json_pack("{s:i, s:i, s:I}", "worker", from, "nic", 0, "rate",
                                                      (json_int_t) (from == slow ? 100000000 : 1000000000)));
        }
        json_object_set_new(m, "pairs", json_pack("{s:I, s:s, s:i, s:o}", "number",
                                                  (json_int_t) json_number_of(record(w), "number"), "why",
                                                  why ? why : "", "core", 60 + (int) h, "received", list));
        ASSERT_OK(gang_say(w->g, m, w->now, reason));
        json_decref(m);
        world_step(w);
}

/* --- Asked and judged ---------------------------------------------------------------------------------- */

static void test_a_slow_host(void) {
        char why[GANG_WHY_MAX];
        struct world w;
        const json_t *slow;

        world_init(&w, false);
        ASSERT_TRUE(!record(&w));
        ASSERT_OK(want(&w, why));
        ASSERT_STREQ(json_text_of(record(&w), "state"), "asked");
        ASSERT_STREQ(json_text_of(record(&w), "by"), "somebody");
        ASSERT_TRUE(gang_concerns(w.g, KEY, "s0", "s0-1") && !gang_concerns(w.g, KEY, "s1", "s0-1"));
        for (unsigned h = 0; h < 4; h++) {
                ASSERT_STREQ(json_text_of(record(&w), "state"), "asked");
                report(&w, h, 2, NULL);
        }
        ASSERT_STREQ(json_text_of(record(&w), "state"), "measured");
        ASSERT_EQ(json_number_of(record(&w), "measured"), 8);
        ASSERT_EQ(json_number_of(record(&w), "core"), 63);
        ASSERT_EQ(json_array_size(json_object_get(record(&w), "slow")), 1);
        slow = json_array_get(json_object_get(record(&w), "slow"), 0);
        ASSERT_STREQ(json_text_of(slow, "host"), "s0-2");
        ASSERT_EQ(json_number_of(slow, "sends"), 100000000);
        ASSERT_EQ(json_number_of(slow, "median"), 1000000000);
        ASSERT_TRUE(!json_object_get(slow, "receives"));
        ASSERT_EQ(json_array_size(json_object_get(record(&w), "unmeasured")), 0);
        gang_free(w.g);
}

static void test_who_does_not_answer(void) {
        char why[GANG_WHY_MAX];
        struct world w;
        const json_t *list;

        world_init(&w, false);
        ASSERT_OK(want(&w, why));
        report(&w, 0, -1, NULL);
        report(&w, 1, -1, NULL);
        report(&w, 2, -1, "port 9470 has no certificates");
        ASSERT_STREQ(json_text_of(record(&w), "state"), "asked");
        ASSERT_TRUE(w.next <= w.now + 2 * MINUTE);
        w.now = w.next;
        world_step(&w);
        ASSERT_STREQ(json_text_of(record(&w), "state"), "measured");
        list = json_object_get(record(&w), "unmeasured");
        ASSERT_EQ(json_array_size(list), 2);
        ASSERT_STREQ(json_text_of(json_array_get(list, 0), "why"), "port 9470 has no certificates");
        ASSERT_STREQ(json_text_of(json_array_get(list, 1), "host"), "s0-3");
        gang_free(w.g);
}

/* --- Refused ------------------------------------------------------------------------------------------- */

static void test_not_beside_a_run(void) {
        char why[GANG_WHY_MAX];
        struct world w;

        world_init(&w, false);
        w.host[0][3].local = 1;
        ASSERT_OK(world_say(&w, 0, 3));
        ASSERT_EQ(want(&w, why), -EBUSY);
        ASSERT_TRUE(strstr(why, "s0-3") && strstr(why, "beside a run"));
        w.host[0][3].local = 0;
        w.host[0][3].runs_unknown = true;
        ASSERT_OK(world_say(&w, 0, 3));
        ASSERT_EQ(want(&w, why), -EBUSY);
        gang_free(w.g);
}

static void test_not_too_often(void) {
        char why[GANG_WHY_MAX];
        struct world w;

        world_init(&w, false);
        ASSERT_OK(want(&w, why));
        ASSERT_EQ(want(&w, why), -EBUSY);
        ASSERT_TRUE(strstr(why, "being measured"));
        for (unsigned h = 0; h < 4; h++)
                report(&w, h, -1, NULL);
        ASSERT_EQ(want(&w, why), -EBUSY);
        ASSERT_TRUE(strstr(why, "was measured at"));
        w.now += 10 * MINUTE;
        ASSERT_OK(want(&w, why));
        gang_free(w.g);
}

static void test_not_of_a_part(void) {
        char why[GANG_WHY_MAX];
        struct world w;
        json_t *v;

        world_init(&w, false);
        world_gone(&w, 0, 1);
        world_step(&w);
        ASSERT_EQ(want(&w, why), -EBUSY);
        ASSERT_TRUE(strstr(why, "not whole") && strstr(why, "s0-1"));
        v = json_pack("{s:i, s:s}", "v", 1, "by", "somebody");
        ASSERT_EQ(gang_want(w.g, "pairs/s7", v, w.now, why), -ENOENT);
        json_decref(v);
        gang_free(w.g);
}

/* --- Before a run -------------------------------------------------------------------------------------- */

static void test_policy(void) {
        struct world w;
        uint64_t number;

        world_init(&w, true);
        ASSERT_STREQ(json_text_of(record(&w), "state"), "asked");
        ASSERT_OK(world_want(&w, world_intent("1", 1, 1, 0)));
        world_step(&w);
        ASSERT_STREQ(world_state(&w), "waiting");
        for (unsigned h = 0; h < 4; h++)
                report(&w, h, -1, NULL);
        ASSERT_STREQ(json_text_of(record(&w), "state"), "measured");
        ASSERT_STREQ(world_state(&w), "preparing");
        number = json_number_of(record(&w), "number");
        w.now += 20 * MINUTE;
        world_step(&w);
        ASSERT_EQ(json_number_of(record(&w), "number"), number); /* the slice is the same */
        gang_free(w.g);
}

/* Another planner goes on where this one was. */
static void test_taken_over(void) {
        char why[GANG_WHY_MAX];
        struct world w;
        struct gang *old;
        const char *key;
        json_t *all = json_object(), *v;

        world_init(&w, false);
        ASSERT_OK(want(&w, why));
        json_object_set(all, "slice/s0", (json_t *) (uintptr_t) gang_record(w.g, "slice/s0"));
        json_object_set(all, KEY, (json_t *) (uintptr_t) record(&w));
        old = w.g;
        ASSERT_OK(gang_new(&gang_default_options, &w.g));
        json_object_foreach (all, key, v)
                ASSERT_OK(gang_load(w.g, key, v, w.now, why));
        json_decref(all);
        gang_free(old);
        world_step(&w);
        ASSERT_STREQ(json_text_of(record(&w), "state"), "asked");
        for (unsigned h = 0; h < 4; h++)
                report(&w, h, 1, NULL);
        ASSERT_STREQ(json_text_of(record(&w), "state"), "measured");
        ASSERT_EQ(json_array_size(json_object_get(record(&w), "slow")), 1);
        gang_free(w.g);
}

TEST_MAIN(test_a_slow_host, test_who_does_not_answer, test_not_beside_a_run, test_not_too_often,
          test_not_of_a_part, test_policy, test_taken_over)
