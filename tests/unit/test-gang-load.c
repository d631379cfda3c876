/* SPDX-License-Identifier: Apache-2.0 */
/* What a planner makes of the records of an earlier one: however many, and whatever clock that one had. */
#include "gang_world.h"

#define O gang_default_options
#define DAY ((usec_t) 24 * 3600 * USEC_PER_SEC)

/* --- Many -------------------------------------------------------------------------------------------- */

#define ACTIVE 200
#define ENDED  64

static int want_run(struct gang *g, const char *kind, unsigned i, bool stop, usec_t now) {
        char name[32], key[48], why[GANG_WHY_MAX];
        json_t *intent = world_intent("a1", 1, 1, 0);
        int r;

        (void) snprintf(name, sizeof(name), "%s%u", kind, i);
        (void) snprintf(key, sizeof(key), "intent/%s", name);
        json_object_set_new(intent, "name", json_string(name));
        if (stop)
                json_object_set_new(intent, "stop", json_true());
        r = gang_want(g, key, intent, now, why);
        json_decref(intent);
        return r;
}

struct loading {
        struct gang *g;
        const char *prefix; /* those alone */
        usec_t now;
        unsigned n, ended;
};

static void load_some(const char *key, const json_t *value, void *userdata) {
        struct loading *l = userdata;
        char why[GANG_WHY_MAX];

        if (!startswith(key, l->prefix))
                return;
        l->n++;
        l->ended += streq(world_text(value, "state"), "ended");
        if (l->g && gang_load(l->g, key, value, l->now, why) < 0)
                test_fail(__FILE__, __LINE__, "%s", why);
}

static struct loading count_of(const struct gang *g, const char *prefix) {
        struct loading l = { .prefix = prefix };

        gang_visit(g, load_some, &l);
        return l;
}

/* A store gives all intents before any run: until the runs are there, all intents look as if theirs had not
 * ended. */
static void test_more_than_may_be_active(void) {
        struct loading l = { .prefix = "intent/" };
        struct world w;
        struct gang *old;

        world_new(&w, 0, 0);
        for (unsigned i = 0; i < ENDED; i++)
                ASSERT_OK(want_run(w.g, "e", i, false, w.now));
        world_step(&w);
        for (unsigned i = 0; i < ENDED; i++)
                ASSERT_OK(want_run(w.g, "e", i, true, w.now));
        world_step(&w);
        for (unsigned i = 0; i < ACTIVE; i++)
                ASSERT_OK(want_run(w.g, "r", i, false, w.now));
        world_step(&w);
        ASSERT_EQ(count_of(w.g, "run/").ended, ENDED);

        old = w.g;
        ASSERT_OK(gang_new(&gang_default_options, &w.g));
        l.g = w.g;
        l.now = w.now;
        gang_visit(old, load_some, &l);
        l.prefix = "run/";
        gang_visit(old, load_some, &l);
        ASSERT_EQ(l.n, 2 * (ACTIVE + ENDED));
        gang_free(old);
        world_step(&w);
        ASSERT_EQ(count_of(w.g, "run/").ended, ENDED);

        /* one more that ends: of the oldest nothing is left */
        ASSERT_OK(want_run(w.g, "r", 0, true, w.now));
        world_step(&w);
        ASSERT_EQ(count_of(w.g, "run/").ended, ENDED);
        ASSERT_EQ(count_of(w.g, "run/").n, ACTIVE + ENDED - 1);
        ASSERT_EQ(count_of(w.g, "intent/").n, ACTIVE + ENDED - 1);

        for (unsigned i = ACTIVE - 1; i < GANG_RUNS_MAX; i++)
                ASSERT_OK(want_run(w.g, "more", i, false, w.now));
        ASSERT_EQ(want_run(w.g, "more", GANG_RUNS_MAX, false, w.now), -E2BIG);
        gang_free(w.g);
}

/* --- A clock that is behind --------------------------------------------------------------------------- */

/* Another planner takes over, by a clock that is a day behind; its hosts are there again after a lease. */
static void take_over_behind(struct world *w) {
        struct gang *old = w->g;

        w->now -= DAY;
        w->g = world_reload(w);
        gang_free(old);
        for (unsigned s = 0; s < w->slices; s++)
                for (unsigned h = 0; h < w->hosts; h++)
                        if (w->host[s][h].there)
                                ASSERT_OK(world_say(w, s, h));
        world_settle(w);
}

/* Seconds until the run is in this state. */
static unsigned seconds_until(struct world *w, const char *state) {
        unsigned n = 0;

        for (; !streq(world_state(w), state) && n < 1000; n++)
                world_wait(w, USEC_PER_SEC);
        return n;
}

static void test_refused_run_behind(void) {
        struct world w;

        world_new(&w, 1, 2);
        world_join_all(&w);
        w.host[0][1].refuses = "the disk is full";
        ASSERT_OK(world_want(&w, world_intent("a1", 1, 1, 0)));
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "waiting");
        ASSERT_EQ(world_generation(&w), 1);
        w.host[0][1].refuses = NULL;
        take_over_behind(&w);
        ASSERT_TRUE(seconds_until(&w, "running") <= O.backoff_max / USEC_PER_SEC + 1);
        ASSERT_EQ(world_generation(&w), 2);
        gang_free(w.g);
}

static void test_waiting_run_behind(void) {
        struct world w;

        world_new(&w, 1, 2);
        world_join_all(&w);
        ASSERT_OK(world_want(&w, world_intent("a1", 2, 2, 0)));
        world_settle(&w);
        take_over_behind(&w);
        ASSERT_TRUE(json_integer_value(json_object_get(world_run(&w), "since")) <= (json_int_t) w.now);
        ASSERT_TRUE(seconds_until(&w, "ended") <= 600);
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "late");
        gang_free(w.g);
}

static void test_last_call_behind(void) {
        struct world w;

        world_new(&w, 1, 2);
        world_join_all(&w);
        ASSERT_OK(world_want(&w, world_intent("a1", 1, 2, 0)));
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "waiting");
        take_over_behind(&w);
        ASSERT_TRUE(seconds_until(&w, "running") <= O.last_call / USEC_PER_SEC);
        gang_free(w.g);
}

/* A run that lost a slice shrinks as soon as if the clock had not changed. */
static void test_missing_host_behind(void) {
        struct world w;
        const json_t *missing;

        world_new(&w, 2, 2);
        world_join_all(&w);
        ASSERT_OK(world_want(&w, world_intent("a1", 1, 2, 0)));
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "running");
        world_gone(&w, 1, 1);
        world_step(&w);
        take_over_behind(&w);
        missing = json_array_get(json_object_get(gang_record(w.g, "slice/s1"), "missing"), 0);
        ASSERT_TRUE(json_integer_value(json_object_get(missing, "since")) == (json_int_t) w.now);
        for (unsigned n = 0; world_width(&w) == 2 && n < 2000; n++)
                world_wait(&w, USEC_PER_SEC);
        ASSERT_EQ(world_width(&w), 1);
        ASSERT_STREQ(world_state(&w), "running");
        gang_free(w.g);
}

TEST_MAIN(test_more_than_may_be_active, test_refused_run_behind, test_waiting_run_behind,
          test_last_call_behind, test_missing_host_behind)
