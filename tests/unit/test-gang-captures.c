/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of captures: when one is asked for, of whom, and that a planner that takes over asks for no second
 * one. */
#include "gang_world.h"

#define SECOND USEC_PER_SEC

static void begin(struct world *w, unsigned slices) {
        world_new(w, slices, 2);
        world_join_all(w);
        ASSERT_OK(world_want(w, world_intent("aa", slices, slices, 3)));
        world_settle(w);
        ASSERT_STREQ(world_state(w), "running");
}

static void suspect(struct world *w, unsigned s, unsigned h, bool on) {
        w->host[s][h].suspected = on ? w->now : 0;
        ASSERT_OK(world_say(w, s, h));
        world_settle(w);
}

static const json_t *request(const struct world *w, const char *slice) {
        char key[64];

        snprintf(key, sizeof(key), "capture/%s", slice);
        return gang_record(w->g, key);
}

static usec_t at(const struct world *w, const char *slice) {
        return (usec_t) json_integer_value(json_object_get(request(w, slice), "at"));
}

static int order(struct world *w, const char *slice, const char *run, char why[static GANG_WHY_MAX]) {
        json_t *v =
                json_pack("{s:i, s:s, s:s, s:s}", "v", 1, "run", run, "by", "alice", "why", "it is slow");
        char key[64];
        int r;

        snprintf(key, sizeof(key), "capture/%s", slice);
        r = gang_want(w->g, key, v, w->now, why);
        json_decref(v);
        world_settle(w);
        return r;
}

static void test_suspicion_asks_all_slices(void) {
        struct world w;
        const json_t *q;

        begin(&w, 2);
        ASSERT_FALSE(request(&w, "s0"));
        suspect(&w, 1, 1, true);
        q = request(&w, "s0");
        ASSERT_STREQ(world_text(q, "run"), "train");
        ASSERT_STREQ(world_text(q, "serial"), "aa");
        ASSERT_STREQ(world_text(q, "by"), "s1-1 (10.1.0.1)");
        ASSERT_STREQ(world_text(q, "why"), "no step for 40 s, usually 8 s");
        ASSERT_EQ(json_integer_value(json_object_get(q, "generation")), world_generation(&w));
        ASSERT_EQ(json_integer_value(json_object_get(q, "hosts")), 4);
        ASSERT_EQ(json_integer_value(json_object_get(q, "slice_hosts")), 2);
        ASSERT_EQ(at(&w, "s0"), w.now + SECOND);
        ASSERT_STREQ(world_text(q, "episode"), world_text(request(&w, "s1"), "episode"));
        ASSERT_EQ(json_integer_value(json_object_get(json_object_get(world_run(&w), "planner"), "stalled")),
                  w.now);
        gang_free(w.g);
}

static void test_rounds_of_a_stall(void) {
        struct world w;
        usec_t first;

        begin(&w, 1);
        suspect(&w, 0, 0, true);
        first = at(&w, "s0");
        world_wait(&w, 3 * SECOND);
        suspect(&w, 0, 1, true); /* the others notice later */
        ASSERT_EQ(at(&w, "s0"), first);
        world_wait(&w, 200 * SECOND);
        ASSERT_EQ(at(&w, "s0"), first);
        for (unsigned k = 1; k <= 2; k++) { /* who was slow may be stuck by now; but not for ever */
                ASSERT_EQ(w.next, at(&w, "s0") + 300 * SECOND);
                w.now = w.next;
                world_settle(&w);
                ASSERT_EQ(at(&w, "s0"), w.now + SECOND);
                ASSERT_EQ(json_integer_value(json_object_get(request(&w, "s0"), "again")), k);
                ASSERT_TRUE(at(&w, "s0") > first);
                first = at(&w, "s0");
        }
        world_wait(&w, 900 * SECOND);
        ASSERT_EQ(at(&w, "s0"), first);
        suspect(&w, 0, 0, false);
        ASSERT_TRUE(json_integer_value(
                            json_object_get(json_object_get(world_run(&w), "planner"), "stalled")) > 0);
        suspect(&w, 0, 1, false);
        ASSERT_EQ(json_integer_value(json_object_get(json_object_get(world_run(&w), "planner"), "stalled")),
                  0);
        suspect(&w, 0, 1, true);
        ASSERT_EQ(at(&w, "s0"), w.now + SECOND);
        gang_free(w.g);
}

/* It is known at once, and nobody takes stacks for it until nothing else explains it: a healthy run has its
 * pauses. */
static void test_what_may_be_a_pause(void) {
        struct world w;

        begin(&w, 1);
        w.host[0][0].may_be_pause = true;
        suspect(&w, 0, 0, true);
        world_wait(&w, 400 * SECOND);
        ASSERT_FALSE(request(&w, "s0"));
        suspect(&w, 0, 0, false);
        suspect(&w, 0, 0, true);
        w.host[0][0].may_be_pause = false;
        suspect(&w, 0, 0, true);
        ASSERT_EQ(at(&w, "s0"), w.now + SECOND);
        gang_free(w.g);
}

static void test_five_minutes(void) {
        struct world w;
        usec_t first;

        begin(&w, 1);
        suspect(&w, 0, 0, true);
        first = at(&w, "s0");
        suspect(&w, 0, 0, false);
        world_wait(&w, 60 * SECOND);
        suspect(&w, 0, 0, true);
        ASSERT_EQ(at(&w, "s0"), first);
        ASSERT_EQ(w.next, first + 300 * SECOND);
        w.now = w.next;
        world_settle(&w);
        ASSERT_EQ(at(&w, "s0"), first + 301 * SECOND);
        gang_free(w.g);
}

static void test_another_generation(void) {
        struct world w;
        usec_t first;

        begin(&w, 1);
        suspect(&w, 0, 0, true);
        first = at(&w, "s0");
        w.host[0][0].suspected = 0;
        world_exit(&w, 0, 0, "exit-code", "exited", "1");
        world_settle(&w);
        world_wait(&w, 5 * SECOND);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 2);
        suspect(&w, 0, 1, true);
        ASSERT_EQ(at(&w, "s0"), w.now + SECOND);
        ASSERT_TRUE(at(&w, "s0") > first);
        gang_free(w.g);
}

/* Another planner takes over out of the records: the same stall has had its round. */
static void test_taken_over(void) {
        struct world w;
        struct gang *g;
        usec_t first;

        begin(&w, 2);
        suspect(&w, 0, 0, true);
        first = at(&w, "s0");
        g = world_reload(&w);
        gang_free(w.g);
        w.g = g;
        w.now += 200 * SECOND;
        ASSERT_OK(world_say(&w, 1, 0)); /* who does not suspect is heard first */
        world_step(&w);
        ASSERT_TRUE(json_integer_value(
                            json_object_get(json_object_get(world_run(&w), "planner"), "stalled")) > 0);
        for (unsigned s = 0; s < 2; s++)
                for (unsigned h = 0; h < 2; h++)
                        ASSERT_OK(world_say(&w, s, h));
        world_settle(&w);
        ASSERT_EQ(at(&w, "s0"), first);
        ASSERT_EQ(at(&w, "s1"), first);
        gang_free(w.g);
}

/* Who left first is asked when a part failed: once, and not behind a round of a moment ago. */
static void test_ended(void) {
        struct world w;
        const json_t *q;

        begin(&w, 1);
        world_wait(&w, 10 * SECOND);
        world_exit(&w, 0, 1, "exit-code", "exited", "1");
        world_settle(&w);
        q = request(&w, "s0");
        ASSERT_STREQ(world_text(q, "by"), "s0-1 (10.0.0.1)");
        ASSERT_TRUE(strstr(world_text(q, "why"), "exit-code") != NULL);
        ASSERT_EQ(json_integer_value(json_object_get(q, "second")), 0);
        ASSERT_EQ(json_integer_value(json_object_get(q, "generation")), 1);
        ASSERT_TRUE(json_is_false(json_object_get(q, "suspected")));
        ASSERT_EQ(at(&w, "s0"), w.now + 2 * SECOND);
        world_wait(&w, 5 * SECOND);
        ASSERT_EQ(world_generation(&w), 2);
        suspect(&w, 0, 0, true);
        ASSERT_EQ(at(&w, "s0"), w.now + SECOND); /* another generation */
        world_wait(&w, 5 * SECOND);
        world_exit(&w, 0, 0, "exit-code", "exited", "1");
        world_settle(&w);
        ASSERT_EQ(at(&w, "s0"), w.now - 4 * SECOND);
        gang_free(w.g);
}

static void test_ordered(void) {
        char why[GANG_WHY_MAX];
        struct world w;

        begin(&w, 2);
        ASSERT_EQ(order(&w, "s9", "", why), -ENOENT);
        ASSERT_EQ(order(&w, "s0", "No Name", why), -EBADMSG);
        ASSERT_OK(order(&w, "s0", "", why));
        ASSERT_STREQ(world_text(request(&w, "s1"), "run"), "train");
        ASSERT_STREQ(world_text(request(&w, "s1"), "by"), "alice");
        ASSERT_TRUE(json_is_false(json_object_get(request(&w, "s1"), "suspected")));
        ASSERT_EQ(order(&w, "s1", "train", why), -EBUSY);
        ASSERT_TRUE(strstr(why, world_text(request(&w, "s0"), "episode")));
        suspect(&w, 0, 0, true); /* the run has had its round, ordered or not */
        ASSERT_EQ(at(&w, "s0"), w.now + SECOND);
        world_wait(&w, 301 * SECOND);
        ASSERT_OK(order(&w, "s0", "own", why)); /* a run that the registry knows nothing of */
        ASSERT_STREQ(world_text(request(&w, "s0"), "run"), "own");
        ASSERT_EQ(json_integer_value(json_object_get(request(&w, "s0"), "hosts")), 2);
        gang_free(w.g);
}

/* A store may tell the planner its own record again. */
static void test_echo(void) {
        char why[GANG_WHY_MAX];
        struct world w;
        json_t *copy;

        begin(&w, 1);
        suspect(&w, 0, 0, true);
        copy = json_deep_copy(request(&w, "s0"));
        ASSERT_OK(gang_want(w.g, "capture/s0", copy, w.now, why));
        json_decref(copy);
        ASSERT_EQ(world_step(&w), 0);
        suspect(&w, 0, 0, false);
        ASSERT_OK(gang_want(w.g, "capture/s0", NULL, w.now, why));
        world_step(&w);
        ASSERT_FALSE(request(&w, "s0"));
        gang_free(w.g);
}

/* Somebody started it by hand on each host: the slice's hosts are one run, whatever it is called there. */
static void test_local_runs(void) {
        struct world w;
        usec_t first;

        world_new(&w, 2, 2);
        world_join_all(&w);
        w.host[0][0].local = 1;
        suspect(&w, 0, 0, true);
        ASSERT_FALSE(request(&w, "s0")); /* the other host has none: what runs here is this host's alone */
        w.host[0][1].local = 2;
        suspect(&w, 0, 1, false);
        ASSERT_FALSE(request(&w, "s0")); /* it has two: which of them is not known */
        w.host[0][1].local = 1;
        suspect(&w, 0, 1, false);
        first = at(&w, "s0");
        ASSERT_EQ(first, w.now + SECOND);
        ASSERT_STREQ(world_text(request(&w, "s0"), "run"), "");
        ASSERT_STREQ(world_text(request(&w, "s0"), "why"), "nothing moves");
        ASSERT_STREQ(world_text(request(&w, "s0"), "by"), "s0-0 (10.0.0.0)");
        ASSERT_EQ(json_integer_value(json_object_get(request(&w, "s0"), "hosts")), 2);
        ASSERT_FALSE(request(&w, "s1"));
        world_wait(&w, 100 * SECOND);
        suspect(&w, 0, 1, true);
        ASSERT_EQ(at(&w, "s0"), first); /* no second round in five minutes */
        suspect(&w, 0, 0, false);
        suspect(&w, 0, 1, false);
        world_wait(&w, 400 * SECOND);
        w.host[0][1].may_be_pause = true;
        suspect(&w, 0, 1, true);
        ASSERT_EQ(at(&w, "s0"), first);
        w.host[0][1].may_be_pause = false;
        suspect(&w, 0, 1, true);
        ASSERT_EQ(at(&w, "s0"), w.now + SECOND);
        gang_free(w.g);
}

/* Two slices stall at once, each with what somebody started there: each has its own episode. */
static void test_local_runs_at_once(void) {
        struct world w;

        world_new(&w, 2, 2);
        world_join_all(&w);
        for (unsigned s = 0; s < 2; s++)
                for (unsigned h = 0; h < 2; h++) {
                        w.host[s][h].local = 1;
                        w.host[s][h].suspected = w.now;
                        ASSERT_OK(world_say(&w, s, h));
                }
        world_settle(&w);
        ASSERT_TRUE(request(&w, "s0") && request(&w, "s1"));
        ASSERT_FALSE(streq(world_text(request(&w, "s0"), "episode"),
                           world_text(request(&w, "s1"), "episode")));
        ASSERT_TRUE(at(&w, "s1") - at(&w, "s0") == 1);
        gang_free(w.g);
}

TEST_MAIN(test_local_runs, test_local_runs_at_once, test_suspicion_asks_all_slices, test_rounds_of_a_stall,
          test_what_may_be_a_pause,
          test_five_minutes, test_another_generation,
          test_taken_over, test_ended, test_ordered, test_echo)
