/* SPDX-License-Identifier: Apache-2.0 */
#include "gang_world.h"

#define O gang_default_options

static void want_one(struct world *w) {
        ASSERT_OK(world_want(w, world_intent("a1", 1, 1, 0)));
        world_settle(w);
}

static void order(struct world *w, const char *key, const char *json) {
        json_t *v = json ? json_loads(json, 0, NULL) : NULL;
        char why[GANG_WHY_MAX];

        ASSERT_OK(gang_want(w->g, key, v, w->now, why));
        json_decref(v);
        world_settle(w);
}

static void test_refused_preflight(void) {
        struct world w;

        world_new(&w, 1, 2);
        world_join_all(&w);
        w.host[0][1].refuses = "the chips are held by pid 7 (python3)\nkill 7";
        want_one(&w);
        ASSERT_STREQ(world_state(&w), "waiting");
        ASSERT_STREQ(world_waits(&w), "s0: s0-1 (10.0.0.1): the chips are held by pid 7 (python3)\nkill 7");
        ASSERT_EQ(world_generation(&w), 1);
        ASSERT_EQ(w.next, w.now + O.backoff_base);
        world_wait(&w, O.backoff_base); /* tried again, with more time each time */
        ASSERT_EQ(world_generation(&w), 2);
        ASSERT_EQ(w.next, w.now + 2 * O.backoff_base);
        w.host[0][1].refuses = NULL;
        world_wait(&w, 2 * O.backoff_base);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(json_integer_value(json_object_get(world_run(&w), "restarts")), 0);
        gang_free(w.g);
}

/* What a host warns of stands in the record that begins the run. */
static void test_warned(void) {
        const json_t *notes;
        struct world w;

        world_new(&w, 1, 2);
        world_join_all(&w);
        w.host[0][1].warns = "another host has its machine id";
        want_one(&w);
        ASSERT_STREQ(world_state(&w), "running");
        notes = json_object_get(world_run(&w), "notes");
        ASSERT_EQ(json_array_size(notes), 1);
        ASSERT_STREQ(json_string_value(json_array_get(notes, 0)),
                     "s0: s0-1 (10.0.0.1): another host has its machine id");
        gang_free(w.g);
}

#define IMAGE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_IMAGE "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

/* One name, and not one image: nothing starts until the hosts have the same. */
static void test_images_differ(void) {
        json_t *intent = world_intent("a1", 1, 1, 0);
        struct world w;

        world_new(&w, 1, 3);
        world_join_all(&w);
        w.host[0][0].image = w.host[0][2].image = IMAGE;
        w.host[0][1].image = OTHER_IMAGE;
        ASSERT_OK(json_object_set_new(intent, "image", json_string("py:1")));
        ASSERT_OK(world_want(&w, intent));
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "waiting");
        ASSERT_STREQ(world_waits(&w), "s0: s0-1 (10.0.0.1): image py:1 is ffffffffffff there, and "
                                      "0123456789ab on 2 others\nsudo podman pull py:1 # there");
        ASSERT_TRUE(startswith(world_text(world_run(&w), "why"), "image py:1 is not the same on all hosts"));
        ASSERT_EQ(w.next, w.now + O.backoff_base);
        w.host[0][1].image = NULL; /* it does not know: a warning of its own says so */
        world_wait(&w, O.backoff_base);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 2);
        gang_free(w.g);
}

/* What a host says of an image is an id, or not taken. */
static void test_image_of_a_liar(void) {
        struct world w;

        world_new(&w, 1, 2);
        world_join_all(&w);
        want_one(&w);
        w.host[0][1].image = "\xc3\xa4; rm -rf /";
        ASSERT_EQ(world_say(&w, 0, 1), -EBADMSG);
        w.host[0][1].image = IMAGE;
        ASSERT_OK(world_say(&w, 0, 1)); /* of a run without an image it means nothing */
        ASSERT_STREQ(world_state(&w), "running");
        gang_free(w.g);
}

static void test_refused_to_the_end(void) {
        struct world w;

        world_new(&w, 1, 2);
        world_join_all(&w);
        w.host[0][1].refuses = "no route to 10.0.0.0:8476\nopen the firewall";
        want_one(&w);
        for (unsigned i = 0; i < 100 && !streq(world_state(&w), "ended"); i++)
                world_wait(&w, w.next - w.now);
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "refused");
        ASSERT_TRUE(strstr(world_text(world_run(&w), "why"), "s0-1 (10.0.0.1): no route to 10.0.0.0:8476"));
        gang_free(w.g);
}

/* Its user or its program is not there: nothing is tried again, whatever others say. */
static void test_refused_for_good(void) {
        struct world w;

        world_new(&w, 1, 3);
        world_join_all(&w);
        w.host[0][0].refuses = "the chips are held by pid 7 (python3)\nkill 7";
        w.host[0][1].refuses = "user alice is not known on this host\ngetent passwd alice";
        w.host[0][1].refuses_for_good = true;
        want_one(&w);
        ASSERT_STREQ(world_state(&w), "ended");
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "refused");
        ASSERT_STREQ(world_text(world_run(&w), "cause"), "not-started");
        ASSERT_STREQ(world_text(world_run(&w), "why"),
                     "s0-1 (10.0.0.1) did not start it (not-started): user alice is not known on this "
                     "host\ngetent passwd alice");
        ASSERT_EQ(world_generation(&w), 1);
        gang_free(w.g);
}

/* One that ran before is tried again: a file system may be away for a while. */
static void test_refused_after_it_ran(void) {
        struct world w;

        world_new(&w, 1, 2);
        world_join_all(&w);
        ASSERT_OK(world_want(&w, world_intent("a1", 1, 1, 3)));
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "running");
        w.host[0][0].step = 7;
        ASSERT_OK(world_say(&w, 0, 0));
        w.host[0][1].refuses = "command /mnt/train does not exist\ncheck the spelling and --directory";
        w.host[0][1].refuses_for_good = true;
        world_exit(&w, 0, 1, "exit-code", "exited", "1");
        world_wait(&w, O.backoff_max);
        ASSERT_STREQ(world_state(&w), "waiting");
        w.host[0][1].refuses = NULL;
        for (unsigned i = 0; i < 100 && !streq(world_state(&w), "running"); i++)
                world_wait(&w, w.next - w.now);
        ASSERT_STREQ(world_state(&w), "running");
        gang_free(w.g);
}

/* Its program could not be executed where all seemed well: no restart is spent on it. */
static void test_not_executed(void) {
        struct world w;

        world_new(&w, 1, 2);
        world_join_all(&w);
        ASSERT_OK(world_want(&w, world_intent("a1", 1, 1, 5)));
        world_settle(&w);
        world_exit(&w, 0, 0, "not-started", "exited", "127");
        world_settle(&w);
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "failed");
        ASSERT_STREQ(world_text(world_run(&w), "cause"), "not-started");
        ASSERT_EQ(json_integer_value(json_object_get(world_run(&w), "restarts")), 0);
        gang_free(w.g);
}

/* A program's own "do not start me again" stands, whatever another host says. */
static void test_never_again_goes_first(void) {
        struct world w;

        world_new(&w, 1, 2);
        world_join_all(&w);
        ASSERT_OK(world_want(&w, world_intent("a1", 1, 1, 5)));
        world_settle(&w);
        w.host[0][0].step = 7; /* it has run: not-started alone would be tried again */
        ASSERT_OK(world_say(&w, 0, 0));
        world_exit(&w, 0, 0, "not-started", "exited", "127");
        world_exit(&w, 0, 1, "exit-code", "exited", "93");
        world_settle(&w);
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "failed");
        ASSERT_STREQ(world_text(world_run(&w), "cause"), "exit-code");
        gang_free(w.g);
}

static void test_unfit_waits(void) {
        struct world w;

        world_new(&w, 1, 2);
        w.host[0][0].unfit = true;
        world_join_all(&w);
        want_one(&w);
        ASSERT_STREQ(world_state(&w), "waiting");
        ASSERT_STREQ(world_waits(&w), "s0: s0-0 (10.0.0.0): unfit: nic.mtu eth0 FAIL");
        w.host[0][0].unfit = false;
        ASSERT_OK(world_say(&w, 0, 0));
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "running");
        w.host[0][0].unfit = true; /* after the start it changes nothing */
        ASSERT_OK(world_say(&w, 0, 0));
        world_wait(&w, 1000 * USEC_PER_SEC);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 1);
        gang_free(w.g);
}

static void test_orders(void) {
        struct world w;

        world_new(&w, 1, 2);
        world_join_all(&w);
        order(&w, "order/s0-1", "{\"v\":1,\"cordon\":{\"reason\":\"bad cable\",\"by\":\"bob\"}}");
        want_one(&w);
        ASSERT_STREQ(world_waits(&w), "s0: s0-1 (10.0.0.1): cordoned by bob: bad cable");
        order(&w, "order/s0-1", "{\"v\":1,\"drain\":{\"by\":\"bob\",\"until\":1795237300000000}}");
        ASSERT_STREQ(world_waits(&w), "s0: s0-1 (10.0.0.1): draining by bob: no reason given");
        ASSERT_EQ(w.next, 1795237300 * USEC_PER_SEC);
        world_wait(&w, w.next - w.now);
        ASSERT_TRUE(!gang_record(w.g, "order/s0-1"));
        ASSERT_STREQ(world_state(&w), "running");
        gang_free(w.g);
}

static void test_stop_switch(void) {
        struct world w;

        world_new(&w, 1, 2);
        world_join_all(&w);
        order(&w, "site/mode", "{\"v\":1,\"mode\":\"observe\",\"by\":\"bob\"}");
        want_one(&w);
        ASSERT_STREQ(world_waits(&w),
                     "the whole fleet is in mode observe, ordered by bob: nothing is started");
        order(&w, "site/mode", NULL);
        ASSERT_STREQ(world_state(&w), "running");
        gang_free(w.g);
}

static void test_unlike_slices(void) {
        struct world w;

        world_new(&w, 3, 2);
        w.host[1][0].digest = w.host[1][1].digest = "d2";
        world_join_all(&w);
        ASSERT_OK(world_want(&w, world_intent("a1", 3, 3, 0)));
        world_settle(&w);
        ASSERT_STREQ(world_waits(&w), "s1: it is unlike s0: libtpu d2, others d1");
        w.host[1][0].digest = NULL;
        ASSERT_OK(world_say(&w, 1, 0));
        world_settle(&w);
        ASSERT_TRUE(strstr(world_waits(&w), "s1: libtpu is d2 on s1-1, but d1 on the others of its slice"));
        w.host[1][1].digest = NULL;
        ASSERT_OK(world_say(&w, 1, 1));
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "running");
        gang_free(w.g);
}

/* Lost while it prepares: the choice is made again, with the deadline that it had. */
static void test_lost_while_preparing(void) {
        struct world w;

        world_new(&w, 2, 2);
        world_join_all(&w);
        ASSERT_OK(world_want(&w, world_intent("a1", 1, 2, 0)));
        world_step(&w);
        ASSERT_STREQ(world_state(&w), "preparing");
        world_gone(&w, 1, 1);
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "waiting");
        world_wait(&w, O.shrink_after);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_width(&w), 1);
        gang_free(w.g);
}

static void test_does_not_stop(void) {
        struct world w;
        json_t *i;

        world_new(&w, 1, 2);
        world_join_all(&w);
        want_one(&w);
        w.host[0][1].there = false; /* it does nothing any more, but renews its lease */
        i = world_intent("a1", 1, 1, 0);
        json_object_set_new(i, "stop", json_true());
        ASSERT_OK(world_want(&w, i));
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "stopping");
        ASSERT_STREQ(world_waits(&w), "");
        world_wait(&w, 36 * USEC_PER_SEC);
        ASSERT_STREQ(world_waits(&w),
                     "s0-1 (10.0.0.1) has not stopped generation 1 yet (hosts that have it: 1)");
        world_wait(&w, 60 * USEC_PER_SEC);
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "stopped");
        ASSERT_OK(world_want(&w, world_intent("a2", 1, 1, 0)));
        world_settle(&w);
        ASSERT_STREQ(world_waits(&w), "s0: s0-1 (10.0.0.1) has not stopped run train, generation 1");
        gang_free(w.g);
}

static void test_bad_intents(void) {
        static const struct {
                const char *key, *json;
                int error;
        } bad[] = {
                { "user", "\"root\"", -EINVAL }, { "user", "\"0\"", -EINVAL },
                { "user", "\"\"", -EINVAL },
                { "argv", "[]", -EINVAL },       { "argv", "[7]", -EINVAL },      { "min", "2", -EINVAL },
                { "min", "0", -EINVAL },         { "port", "0", -EINVAL },
                { "late", "\"never\"", -EINVAL },
                { "serial", "\"\"", -EINVAL },   { "slices", "[\"a\",\"a\"]", -EINVAL },
                { "slices", "[\"/\"]", -EINVAL },{ "name", "\"x\"", -EINVAL },    { "v", "\"1\"", -EBADMSG },
                { "max", "300", -EINVAL },       { "wait", "-1", -EINVAL },       { "env", "{}", -EINVAL },
        };
        struct world w;

        world_new(&w, 1, 2);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                json_t *v = world_intent("a1", 1, 1, 0);
                char why[GANG_WHY_MAX];
                int r;

                json_object_set_new(v, bad[i].key, json_loads(bad[i].json, JSON_DECODE_ANY, NULL));
                r = gang_want(w.g, "intent/train", v, w.now, why);
                if (r != bad[i].error || !*why)
                        test_fail(__FILE__, __LINE__, "%s %s: %d %s", bad[i].key, bad[i].json, r, why);
                json_decref(v);
        }
        ASSERT_EQ(world_step(&w), 0);
        gang_free(w.g);
}

static void test_who_shall_know(void) {
        struct world w;

        world_new(&w, 2, 2);
        world_join_all(&w);
        want_one(&w);
        order(&w, "order/s0-1", "{\"v\":1,\"cordon\":{}}");
        ASSERT_TRUE(gang_concerns(w.g, "run/train", "s0", "s0-0"));
        ASSERT_FALSE(gang_concerns(w.g, "run/train", "s1", "s1-0"));
        ASSERT_TRUE(gang_concerns(w.g, "slice/s0", "s0", "s0-0"));
        ASSERT_FALSE(gang_concerns(w.g, "slice/s1", "s0", "s0-0"));
        ASSERT_TRUE(gang_concerns(w.g, "order/s0-1", "s0", "s0-1"));
        ASSERT_FALSE(gang_concerns(w.g, "order/s0-1", "s0", "s0-0"));
        ASSERT_TRUE(gang_concerns(w.g, "site/mode", "s0", "s0-0"));
        ASSERT_FALSE(gang_concerns(w.g, "slot/s0/0", "s0", "s0-0"));
        for (unsigned h = 0; h < 2; h++)
                world_exit(&w, 0, h, "success", "exited", "0");
        world_settle(&w);
        world_wait(&w, 3599 * USEC_PER_SEC);
        ASSERT_TRUE(gang_concerns(w.g, "run/train", "s0", "s0-0"));
        world_wait(&w, USEC_PER_SEC);
        ASSERT_FALSE(gang_concerns(w.g, "run/train", "s0", "s0-0"));
        gang_free(w.g);
}

TEST_MAIN(test_refused_preflight, test_warned, test_images_differ, test_image_of_a_liar,
          test_refused_to_the_end, test_refused_for_good, test_refused_after_it_ran, test_not_executed,
          test_never_again_goes_first, test_unfit_waits, test_orders, test_stop_switch, test_unlike_slices,
          test_lost_while_preparing, test_does_not_stop, test_bad_intents, test_who_shall_know)
