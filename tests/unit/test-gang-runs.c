/* SPDX-License-Identifier: Apache-2.0 */
#include "gang_world.h"

#define O gang_default_options

static void exit_all(struct world *w, unsigned s, const char *cause) {
        for (unsigned h = 0; h < w->hosts; h++)
                world_exit(w, s, h, cause, "exited", streq(cause, "success") ? "0" : "1");
}

static void begin(struct world *w, unsigned slices, unsigned min, unsigned max, unsigned restarts) {
        world_new(w, slices, 2);
        world_join_all(w);
        ASSERT_OK(world_want(w, world_intent("a1", min, max, restarts)));
        world_settle(w);
}

/* A host that reports a generation at the end of all numbers does not bring the run there. */
static void test_generation_of_a_liar(void) {
        struct world w;
        const uint64_t ends[] = { INT64_MAX, INT64_MAX - 2, UINT64_C(1) << 62 };

        for (size_t i = 0; i < ELEMENTSOF(ends); i++) {
                world_new(&w, 1, 2);
                w.host[0][0].part = (struct member_part) { ends[i], PART_STOPPED };
                world_join_all(&w);
                ASSERT_OK(world_want(&w, world_intent("a1", 1, 1, 0)));
                world_settle(&w);
                ASSERT_TRUE(json_integer_value(json_object_get(world_run(&w), "generation")) > 0);
                ASSERT_TRUE(json_integer_value(json_object_get(world_run(&w), "generation")) < 100);
                w.g = gang_free(w.g);
        }
}

static void test_start_to_success(void) {
        struct world w;
        const json_t *c;

        begin(&w, 2, 2, 2, 0);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 1);
        ASSERT_EQ(world_width(&w), 2);
        c = json_object_get(world_run(&w), "coordinator");
        ASSERT_STREQ(world_text(c, "host"), "s0-0");
        ASSERT_STREQ(world_text(c, "address"), "10.0.0.0");
        ASSERT_EQ(json_integer_value(json_object_get(c, "port")), 8476);
        for (unsigned s = 0; s < 2; s++)
                for (unsigned h = 0; h < 2; h++)
                        ASSERT_EQ(w.host[s][h].part.state, PART_RUNNING);
        exit_all(&w, 0, "success");
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "running");
        exit_all(&w, 1, "success");
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "ended");
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "success");
        ASSERT_EQ(w.next, USEC_INFINITY);
        gang_free(w.g);
}

static void test_stopped_by_intent(void) {
        struct world w;
        json_t *i;

        begin(&w, 1, 1, 1, 0);
        i = world_intent("a1", 1, 1, 0);
        json_object_set_new(i, "stop", json_true());
        ASSERT_OK(world_want(&w, i));
        world_step(&w);
        ASSERT_STREQ(world_state(&w), "stopping");
        world_settle(&w);
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "stopped");
        ASSERT_EQ(w.host[0][1].part.state, PART_STOPPED);
        ASSERT_OK(world_want(&w, world_intent("a2", 1, 1, 0))); /* again, of the same name */
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 2);
        ASSERT_EQ(world_want(&w, world_intent("a3", 1, 1, 0)), -EBUSY);
        ASSERT_EQ(world_want(&w, world_intent("a2", 1, 1, 7)), -EBUSY);
        ASSERT_OK(world_want(&w, NULL)); /* taken back is stopped */
        world_settle(&w);
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "stopped");
        gang_free(w.g);
}

static void test_worker_fails(void) {
        struct world w;

        begin(&w, 1, 1, 1, 1);
        w.host[0][1].step = 50;
        ASSERT_OK(world_say(&w, 0, 1));
        world_settle(&w);
        world_exit(&w, 0, 0, "exit-code", "exited", "1");
        world_step(&w);
        ASSERT_STREQ(world_state(&w), "stopping");
        ASSERT_STREQ(world_text(world_run(&w), "blame"), "s0-0");
        ASSERT_STREQ(world_text(world_run(&w), "cause"), "exit-code");
        ASSERT_EQ(json_integer_value(json_object_get(world_run(&w), "step")), 50);
        world_settle(&w); /* there was progress: at once */
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 2);
        ASSERT_EQ(json_integer_value(json_object_get(world_run(&w), "restarts")), 1);
        ASSERT_EQ(json_array_size(json_object_get(world_run(&w), "history")), 2);
        world_exit(&w, 0, 1, "signal", "killed", "SEGV");
        world_settle(&w);
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "failed"); /* its one restart is used up */
        ASSERT_STREQ(world_text(world_run(&w), "blame"), "s0-1");
        gang_free(w.g);
}

static void test_never_again(void) {
        struct world w;

        begin(&w, 1, 1, 1, 10);
        world_exit(&w, 0, 1, "exit-code", "exited", "93");
        world_settle(&w);
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "failed");
        ASSERT_EQ(world_generation(&w), 1);
        gang_free(w.g);
}

static void test_no_progress(void) {
        struct world w;

        begin(&w, 1, 1, 1, 10);
        w.host[0][0].step = 7;
        ASSERT_OK(world_say(&w, 0, 0));
        world_settle(&w);
        for (unsigned i = 0; i < O.no_progress + 1; i++) {
                ASSERT_STREQ(world_state(&w), "running");
                w.host[0][0].step = 6;
                world_exit(&w, 0, 0, "exit-code", "exited", "1");
                world_settle(&w);
                if (i > 0 && i < O.no_progress) {
                        ASSERT_STREQ(world_state(&w), "waiting");
                        ASSERT_EQ(w.next, w.now + (O.backoff_base << (i - 1)));
                }
                world_wait(&w, O.backoff_max);
        }
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "failed");
        ASSERT_TRUE(strstr(world_text(world_run(&w), "why"), "without progress, step 7"));
        gang_free(w.g);
}

/* The peers of who failed say so first. */
static void test_blame_moves(void) {
        struct world w;

        begin(&w, 1, 1, 1, 5);
        world_exit(&w, 0, 0, "peer-lost", "exited", "1");
        world_step(&w);
        ASSERT_STREQ(world_text(world_run(&w), "blame"), "s0-0");
        world_exit(&w, 0, 1, "oom-kill", "killed", "KILL");
        world_step(&w);
        ASSERT_STREQ(world_text(world_run(&w), "blame"), "s0-1");
        ASSERT_STREQ(world_text(world_run(&w), "cause"), "oom-kill");
        gang_free(w.g);
}

/* One ends with success while the others still train: they fail for it, and are heard first or last. At a
 * run's own end, where one alone loses its peers, it is that one's. */
static void test_left_early(void) {
        for (int last = 0; last < 2; last++) {
                struct world w;

                begin(&w, 2, 1, 2, 0);
                if (last == 0)
                        world_exit(&w, 1, 0, "success", "exited", "0");
                world_exit(&w, 0, 0, "peer-lost", "exited", "1");
                world_exit(&w, 0, 1, "peer-lost", "exited", "1");
                world_step(&w);
                ASSERT_STREQ(world_text(world_run(&w), "blame"), last ? "s0-0" : "s1-0");
                if (last)
                        world_exit(&w, 1, 0, "success", "exited", "0");
                world_exit(&w, 1, 1, "peer-lost", "exited", "1");
                world_step(&w);
                ASSERT_STREQ(world_text(world_run(&w), "blame"), "s1-0");
                ASSERT_STREQ(world_text(world_run(&w), "cause"), "left");
                ASSERT_STREQ(world_text(world_run(&w), "outcome"), "failed");
                gang_free(w.g);
        }
        for (int i = 0; i < 1; i++) {
                struct world w;

                begin(&w, 2, 1, 2, 0);
                for (unsigned h = 0; h < 3; h++)
                        world_exit(&w, h / 2, h % 2, "success", "exited", "0");
                world_exit(&w, 1, 1, "peer-lost", "exited", "1");
                world_step(&w);
                ASSERT_STREQ(world_text(world_run(&w), "blame"), "s1-1");
                gang_free(w.g);
        }
}

static void test_shrink_and_grow(void) {
        struct world w;

        begin(&w, 2, 1, 2, 0);
        ASSERT_EQ(world_width(&w), 2);
        w.now += USEC_PER_SEC;
        world_gone(&w, 1, 0);
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "running"); /* it may come back */
        ASSERT_TRUE(strstr(world_waits(&w), "s1-0 (10.1.0.0) missing since"));
        ASSERT_EQ(w.next, w.now + O.shrink_after / 3); /* the others are asked again */
        world_wait(&w, O.shrink_after);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 2);
        ASSERT_EQ(world_width(&w), 1);
        ASSERT_TRUE(strstr(world_text(world_run(&w), "why"), "s1-0 (10.1.0.0) was lost"));
        /* no fault of the program */
        ASSERT_EQ(json_integer_value(json_object_get(world_run(&w), "restarts")), 0);
        ASSERT_EQ(w.host[1][1].part.state, PART_STOPPED);
        w.host[1][0].part = (struct member_part) { 0, PART_NONE }; /* it was switched on again */
        w.host[1][0].life++;
        world_join(&w, 1, 0);
        world_settle(&w);
        ASSERT_EQ(world_width(&w), 1);
        world_wait(&w, O.grow_after - 1);
        ASSERT_EQ(world_width(&w), 1);
        world_wait(&w, 1);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 3);
        ASSERT_EQ(world_width(&w), 2);
        gang_free(w.g);
}

static void test_back_in_time(void) {
        struct world w;

        begin(&w, 2, 1, 2, 0);
        world_gone(&w, 1, 0);
        world_wait(&w, O.shrink_after / 2);
        world_join(&w, 1, 0);
        world_wait(&w, O.shrink_after);
        ASSERT_EQ(world_generation(&w), 1);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_STREQ(world_waits(&w), "");
        gang_free(w.g);
}

static void test_preempted(void) {
        struct world w;

        begin(&w, 2, 1, 2, 0);
        w.host[1][0].notice = "preemption";
        ASSERT_OK(world_say(&w, 1, 0));
        world_settle(&w);
        ASSERT_EQ(world_generation(&w), 1); /* it goes on for as long as it is there */
        world_gone(&w, 1, 0);
        world_settle(&w);
        ASSERT_EQ(world_generation(&w), 2);
        ASSERT_EQ(world_width(&w), 1);
        ASSERT_STREQ(world_state(&w), "running");
        gang_free(w.g);
}

/* A host dies: its peers' programs fail before its lease ends. */
static void test_peers_fail_first(void) {
        struct world w;

        begin(&w, 2, 1, 2, 0);
        world_exit(&w, 0, 0, "peer-lost", "exited", "1");
        world_exit(&w, 0, 1, "peer-lost", "exited", "1");
        world_exit(&w, 1, 1, "peer-lost", "exited", "1");
        w.host[1][0].there = false; /* and says nothing */
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "stopping");
        w.now += O.lease;
        world_gone(&w, 1, 0);
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "waiting"); /* for it to come back */
        ASSERT_STREQ(json_string_value(json_object_get(world_run(&w), "why")),
                     "s1-0 (10.1.0.0) was lost: its lease ended");
        ASSERT_STREQ(json_string_value(json_object_get(world_run(&w), "cause")), "host-lost");
        world_wait(&w, O.shrink_after);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_width(&w), 1);
        ASSERT_EQ(world_generation(&w), 2);
        ASSERT_EQ(json_integer_value(json_object_get(world_run(&w), "restarts")), 0);
        gang_free(w.g);
}

static void test_below_min_waits(void) {
        struct world w;

        begin(&w, 1, 1, 1, 0);
        world_gone(&w, 0, 0);
        world_wait(&w, O.shrink_after);
        ASSERT_STREQ(world_state(&w), "waiting");
        ASSERT_TRUE(strstr(world_waits(&w), "s0: s0-0 (10.0.0.0) missing since 2026-"));
        w.host[0][0].part = (struct member_part) { 0 };
        world_join(&w, 0, 0);
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 2);
        gang_free(w.g);
}

/* Switched off and on within its lease: the host is there, but nothing runs on it. */
static void test_rebooted(void) {
        struct world w;

        begin(&w, 1, 1, 1, 0);
        w.host[0][1].part = (struct member_part) { 0 };
        w.host[0][1].life++;
        ASSERT_OK(world_say(&w, 0, 1));
        world_settle(&w);
        ASSERT_EQ(w.next, w.now + O.lease);
        world_wait(&w, O.lease);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 2);
        ASSERT_EQ(w.host[0][1].part.state, PART_RUNNING);
        gang_free(w.g);
}

/* Started again, the agent says of the run what it was. */
static void test_agents_restart(void) {
        struct world w;

        begin(&w, 2, 2, 2, 0);
        for (unsigned s = 0; s < 2; s++)
                for (unsigned h = 0; h < 2; h++) {
                        w.host[s][h].life++;
                        ASSERT_OK(world_say(&w, s, h));
                }
        world_wait(&w, 100 * USEC_PER_SEC);
        ASSERT_EQ(world_generation(&w), 1);
        ASSERT_STREQ(world_state(&w), "running");
        gang_free(w.g);
}

static void test_taken_over(void) {
        struct world w;
        struct gang *old;

        begin(&w, 2, 1, 2, 0);
        w.now += 100 * USEC_PER_SEC;
        old = w.g;
        w.g = world_reload(&w);
        ASSERT_EQ(world_step(&w), 0);
        for (unsigned s = 0; s < 2; s++)
                for (unsigned h = 0; h < 2; h++)
                        ASSERT_OK(world_say(&w, s, h));
        world_wait(&w, 2 * O.lease);
        ASSERT_TRUE(json_equal(world_run(&w), gang_record(old, "run/train")));
        gang_free(old);
        gang_free(w.g);
}

static void test_last_call(void) {
        struct world w;

        world_new(&w, 2, 2);
        ASSERT_OK(world_want(&w, world_intent("a1", 1, 2, 0)));
        world_settle(&w);
        ASSERT_TRUE(strstr(world_waits(&w), "no slice is known"));
        world_join(&w, 0, 0);
        world_join(&w, 0, 1);
        world_join(&w, 1, 0);
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "waiting");
        ASSERT_TRUE(strstr(world_waits(&w), "s1: worker 1 missing since"));
        ASSERT_EQ(w.next, w.now + O.last_call);
        world_wait(&w, O.last_call);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_width(&w), 1);
        gang_free(w.g);
}

static void test_late(void) {
        struct world w;
        json_t *i;

        world_new(&w, 1, 2);
        world_join(&w, 0, 0);
        ASSERT_OK(world_want(&w, world_intent("a1", 1, 1, 0)));
        world_settle(&w);
        ASSERT_EQ(w.next, w.now + 600 * USEC_PER_SEC);
        world_wait(&w, 600 * USEC_PER_SEC);
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "late");
        ASSERT_TRUE(strstr(world_text(world_run(&w), "why"), "within 600 s: s0: worker 1 missing"));
        i = world_intent("a2", 1, 1, 0);
        json_object_set_new(i, "late", json_string("min"));
        ASSERT_OK(world_want(&w, i));
        world_wait(&w, 1000 * USEC_PER_SEC);
        ASSERT_STREQ(world_state(&w), "waiting");
        world_join(&w, 0, 1);
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "running");
        gang_free(w.g);
}

/* Two runs, one slice: the second has its turn when the first has ended. */
static void test_one_slice_two_runs(void) {
        struct world w;
        json_t *i;
        char why[GANG_WHY_MAX];

        begin(&w, 1, 1, 1, 0);
        i = world_intent("b1", 1, 1, 0);
        json_object_set_new(i, "name", json_string("other"));
        ASSERT_OK(gang_want(w.g, "intent/other", i, w.now, why));
        json_decref(i);
        world_settle(&w);
        ASSERT_STREQ(json_string_value(json_array_get(json_object_get(gang_record(w.g, "run/other"),
                                                                      "waits_for"), 0)),
                     "s0: run train has it");
        exit_all(&w, 0, "success");
        world_step(&w);
        ASSERT_STREQ(world_text(gang_record(w.g, "run/other"), "state"), "preparing");
        gang_free(w.g);
}

/* What people want stands before the planner's own times. */
static void test_own_times(void) {
        struct world w;
        json_t *i = world_intent("a1", 1, 2, 0);

        json_object_set_new(i, "last_call", json_integer(7 * (json_int_t) USEC_PER_SEC));
        json_object_set_new(i, "shrink_after", json_integer(3 * (json_int_t) USEC_PER_SEC));
        json_object_set_new(i, "grow_after", json_integer(0));
        world_new(&w, 2, 1);
        world_join(&w, 0, 0);
        ASSERT_OK(world_want(&w, i));
        world_settle(&w);
        ASSERT_EQ(w.next, w.now + 7 * USEC_PER_SEC);
        world_wait(&w, 7 * USEC_PER_SEC);
        ASSERT_EQ(world_width(&w), 1);
        world_join(&w, 1, 0);
        world_settle(&w);
        ASSERT_EQ(world_width(&w), 2);
        world_gone(&w, 1, 0);
        world_settle(&w);
        world_wait(&w, 3 * USEC_PER_SEC - 1);
        ASSERT_EQ(world_width(&w), 2);
        world_wait(&w, 1);
        ASSERT_EQ(world_width(&w), 1);
        ASSERT_STREQ(world_state(&w), "running");
        i = world_intent("a2", 1, 2, 0);
        json_object_set_new(i, "shrink_after", json_integer(-1));
        ASSERT_EQ(world_want(&w, i), -EINVAL);
        gang_free(w.g);
}

TEST_MAIN(test_generation_of_a_liar, test_start_to_success, test_stopped_by_intent, test_worker_fails,
          test_never_again,
          test_no_progress,
          test_blame_moves, test_left_early, test_shrink_and_grow, test_back_in_time, test_preempted,
          test_peers_fail_first,
          test_below_min_waits, test_rebooted, test_agents_restart, test_taken_over, test_last_call,
          test_late,
          test_one_slice_two_runs, test_own_times)
