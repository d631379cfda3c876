/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that are not heard: whose agent alone is away, who have no power, who said that they go. */
#include "gang_world.h"

#define O       gang_default_options
#define MINUTE  (60 * USEC_PER_SEC)
#define UNHEARD (10 * MINUTE) /* runs.c */

static void begin(struct world *w, unsigned slices, unsigned min, unsigned max) {
        world_new(w, slices, 2);
        world_join_all(w);
        for (unsigned s = 0; s < slices; s++)
                for (unsigned h = 0; h < 2; h++)
                        w->host[s][h].step = 10;
        ASSERT_OK(world_want(w, world_intent("a1", min, max, 0)));
        world_settle(w);
        ASSERT_STREQ(world_state(w), "running");
}

/* The training goes on: every host that has it is at the same step. */
static void train(struct world *w, usec_t span, int64_t steps) {
        for (usec_t end = w->now + span; w->now < end;) {
                w->now += MIN(5 * USEC_PER_SEC, end - w->now);
                for (unsigned s = 0; s < w->slices; s++)
                        for (unsigned h = 0; h < 2; h++)
                                w->host[s][h].step += steps;
                world_settle(w);
        }
}

static void all_exit(struct world *w, const char *cause) {
        for (unsigned s = 0; s < w->slices; s++)
                for (unsigned h = 0; h < 2; h++)
                        if (w->host[s][h].there && w->host[s][h].part.state == PART_RUNNING)
                                world_exit(w, s, h, cause, "exited", streq(cause, "success") ? "0" : "1");
}

/* It ended while its agent was away: who comes back says so. */
static void back_with(struct world *w, unsigned s, unsigned h, const char *cause) {
        struct world_host *x = &w->host[s][h];

        x->life++;
        x->part.state = PART_EXITED;
        snprintf(x->cause, sizeof(x->cause), "%s", cause);
        world_join(w, s, h);
}

static void ended(const struct world *w, const char *outcome, const char *cause, unsigned generation) {
        ASSERT_STREQ(world_state(w), "ended");
        ASSERT_STREQ(world_text(world_run(w), "outcome"), outcome);
        ASSERT_STREQ(world_text(world_run(w), "cause"), cause);
        ASSERT_EQ(world_generation(w), generation);
}

static void test_agent_away_steps_go_on(void) {
        struct world w;
        unsigned asked = 0;

        begin(&w, 2, 1, 2);
        world_gone(&w, 1, 0);
        train(&w, 30 * MINUTE, 5);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 1);
        ASSERT_EQ(world_width(&w), 2);
        ASSERT_TRUE(strstr(world_waits(&w), "s1-0 (10.1.0.0) missing since"));
        ASSERT_TRUE(strstr(world_waits(&w), "the steps of the others go on"));
        for (unsigned s = 0; s < 2; s++) /* by turns, and ever less often: not every host at each step */
                for (unsigned h = 0; h < 2; h++)
                        asked = MAX(asked, w.host[s][h].asked);
        ASSERT_TRUE(asked >= 30 && asked <= 60);
        w.host[1][0].life++;
        world_join(&w, 1, 0);
        world_settle(&w);
        ASSERT_STREQ(world_waits(&w), "");
        ASSERT_TRUE(json_is_null(json_object_get(world_run(&w), "ask")));
        ASSERT_EQ(w.next, USEC_INFINITY);
        gang_free(w.g);
}

static void test_power_off_is_quick(void) {
        struct world w;

        begin(&w, 2, 1, 2);
        world_gone(&w, 1, 0);
        world_settle(&w);
        train(&w, O.shrink_after - 1, 0);
        ASSERT_EQ(world_generation(&w), 1);
        train(&w, 1, 0);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 2);
        ASSERT_EQ(world_width(&w), 1);
        gang_free(w.g);
}

/* The agent was away, and now the power is. */
static void test_goes_on_and_then_stops(void) {
        struct world w;

        begin(&w, 2, 1, 2);
        world_gone(&w, 1, 0);
        train(&w, 20 * MINUTE, 1);
        ASSERT_EQ(world_generation(&w), 1);
        train(&w, 2 * MINUTE + O.shrink_after, 0);
        ASSERT_EQ(world_generation(&w), 2);
        ASSERT_EQ(world_width(&w), 1);
        gang_free(w.g);
}

/* Another host is lost while the first one's agent is away: as quick as if that were there. */
static void test_second_is_lost(void) {
        struct world w;

        begin(&w, 3, 1, 3);
        world_gone(&w, 1, 0);
        train(&w, 20 * MINUTE, 1);
        world_gone(&w, 2, 0);
        world_settle(&w);
        train(&w, O.shrink_after, 0);
        ASSERT_EQ(world_generation(&w), 2);
        ASSERT_EQ(world_width(&w), 1);
        gang_free(w.g);
}

static void test_long_steps(void) {
        struct world w;

        begin(&w, 2, 1, 2);
        for (unsigned h = 0; h < 2; h++) {
                w.host[0][h].step_time = 4 * MINUTE;
                ASSERT_OK(world_say(&w, 0, h));
        }
        world_gone(&w, 1, 0);
        for (unsigned i = 0; i < 10; i++) {
                train(&w, 4 * MINUTE, 0);
                train(&w, USEC_PER_SEC, 1);
        }
        ASSERT_EQ(world_generation(&w), 1);
        gang_free(w.g);
}

/* Who is asked says nothing: that is no step. */
static void test_nobody_answers(void) {
        struct world w;

        begin(&w, 2, 1, 2);
        for (unsigned s = 0; s < 2; s++)
                for (unsigned h = 0; h < 2; h++)
                        w.host[s][h].silent_asked = true;
        world_gone(&w, 1, 0);
        world_settle(&w);
        world_settle(&w);
        train(&w, O.shrink_after, 5);
        ASSERT_EQ(world_generation(&w), 2);
        gang_free(w.g);
}

/* Every agent is dead for minutes, as when the registry is cut off; the run ends meanwhile. */
static void test_all_away_success(void) {
        struct world w;

        begin(&w, 2, 1, 2);
        for (unsigned s = 0; s < 2; s++)
                for (unsigned h = 0; h < 2; h++)
                        world_gone(&w, s, h);
        world_wait(&w, 5 * MINUTE);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_TRUE(strstr(world_waits(&w), "none of its 4 hosts is heard"));
        for (unsigned s = 0; s < 2; s++)
                for (unsigned h = 0; h < 2; h++) {
                        ASSERT_STREQ(world_state(&w), "running");
                        back_with(&w, s, h, "success");
                        world_wait(&w, 2 * MINUTE);
                }
        ended(&w, "success", "success", 1);
        gang_free(w.g);
}

static void test_all_away_failure(void) {
        struct world w;

        begin(&w, 1, 1, 1);
        world_gone(&w, 0, 0);
        world_gone(&w, 0, 1);
        world_wait(&w, 5 * MINUTE);
        back_with(&w, 0, 1, "exit-code");
        world_settle(&w);
        ASSERT_STREQ(world_text(world_run(&w), "blame"), "s0-1");
        gang_free(w.g);
}

/* Its hosts are gone for good, others are free. */
static void test_all_away_for_good(void) {
        struct world w;

        begin(&w, 1, 1, 1);
        w.slices = 2;
        world_join(&w, 1, 0);
        world_join(&w, 1, 1);
        world_settle(&w);
        world_gone(&w, 0, 0);
        world_gone(&w, 0, 1);
        world_wait(&w, UNHEARD - 1);
        ASSERT_EQ(world_generation(&w), 1);
        world_wait(&w, 1);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 2);
        ASSERT_EQ(w.host[1][0].part.state, PART_RUNNING);
        gang_free(w.g);
}

/* The others have ended it well, one is not heard: never begun again, and no success before that one says
 * so. */
static void test_success_but_one(void) {
        struct world w;

        begin(&w, 2, 1, 2);
        world_gone(&w, 1, 1);
        all_exit(&w, "success");
        world_wait(&w, 5 * MINUTE);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_TRUE(strstr(world_waits(&w),
                           "3 of 4 hosts ended it with success, how it ended there is not known"));
        back_with(&w, 1, 1, "success");
        world_settle(&w);
        ended(&w, "success", "success", 1);
        gang_free(w.g);
}

static void test_success_but_one_for_good(void) {
        struct world w;

        begin(&w, 2, 1, 2);
        all_exit(&w, "success"); /* one of them is not heard any more before it says so */
        w.host[1][1].part.state = PART_RUNNING;
        ASSERT_OK(world_say(&w, 1, 1));
        world_gone(&w, 1, 1);
        world_settle(&w);
        world_wait(&w, UNHEARD);
        ended(&w, "failed", "unknown", 1);
        ASSERT_STREQ(world_text(world_run(&w), "blame"), "s1-1");
        ASSERT_TRUE(strstr(world_text(world_run(&w), "why"),
                           "how it ended on s1-1 (10.1.0.1) is not known"));
        back_with(&w, 1, 1, "success"); /* now it is */
        world_settle(&w);
        ended(&w, "success", "success", 1);
        gang_free(w.g);
}

/* Its end was told before it lost its power. */
static void test_ended_then_gone(void) {
        struct world w;

        begin(&w, 2, 1, 2);
        world_exit(&w, 1, 0, "success", "exited", "0");
        world_settle(&w);
        world_gone(&w, 1, 0);
        world_wait(&w, 5 * MINUTE);
        ASSERT_STREQ(world_state(&w), "running");
        all_exit(&w, "success");
        world_settle(&w);
        ended(&w, "success", "success", 1);
        gang_free(w.g);
}

/* Nothing tells steps, so it was stopped; the host comes back and had ended it. */
static void test_back_while_it_waits(void) {
        struct world w;

        begin(&w, 1, 1, 1);
        world_gone(&w, 0, 0);
        world_wait(&w, O.shrink_after);
        ASSERT_STREQ(world_state(&w), "waiting");
        back_with(&w, 0, 0, "success");
        world_settle(&w);
        ended(&w, "failed", "unknown", 1);
        ASSERT_TRUE(strstr(world_text(world_run(&w), "why"),
                           "s0-0 (10.0.0.0) ended it with success while it was not heard"));
        gang_free(w.g);
}

/* Every agent was dead when it failed: who comes back first has only lost its peer. */
static void test_failure_heard_late(void) {
        struct world w;

        for (unsigned final = 0; final < 2; final++) {
                begin(&w, 1, 1, 1);
                world_gone(&w, 0, 0);
                world_gone(&w, 0, 1);
                world_wait(&w, 2 * MINUTE);
                back_with(&w, 0, 0, "peer-lost");
                world_settle(&w);
                ASSERT_STREQ(world_state(&w), "waiting");
                ASSERT_STREQ(world_text(world_run(&w), "cause"), "host-lost");
                snprintf(w.host[0][1].code, sizeof(w.host[0][1].code), "exited");
                snprintf(w.host[0][1].status, sizeof(w.host[0][1].status), "%s", final ? "93" : "1");
                back_with(&w, 0, 1, "exit-code");
                world_settle(&w);
                ASSERT_STREQ(world_text(world_run(&w), "why"),
                             final ? "s0-1 (10.0.0.1) ended it: exit-code 93" :
                                                                       "s0-1 (10.0.0.1) ended it: exit-code "
                                                                       "1");
                if (final)
                        ended(&w, "failed", "exit-code", 1);
                else
                        ASSERT_EQ(world_generation(&w), 2);
                gang_free(w.g);
        }
}

/* Who only lost its peers hides no success that is heard later: a planner that never heard it would see
 * that. */
static void test_success_heard_after_peer_lost(void) {
        struct world w;

        begin(&w, 1, 1, 1);
        world_gone(&w, 0, 0);
        world_gone(&w, 0, 1);
        world_wait(&w, 2 * MINUTE);
        back_with(&w, 0, 0, "peer-lost");
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "waiting");
        back_with(&w, 0, 1, "success");
        world_settle(&w);
        ended(&w, "failed", "unknown", 1);
        ASSERT_TRUE(strstr(world_text(world_run(&w), "why"),
                           "s0-1 (10.0.0.1) ended it with success while it was not heard"));
        gang_free(w.g);
}

/* Told to stop for it, another one had to be killed: that is nobody's fault. */
static void test_stopped_the_hard_way(void) {
        struct world w;

        begin(&w, 2, 1, 2);
        world_shut_down(&w, 1, 0);
        world_step(&w);
        ASSERT_STREQ(world_state(&w), "stopping");
        world_exit(&w, 0, 1, "timeout", "killed", "KILL");
        world_settle(&w);
        ASSERT_EQ(world_generation(&w), 2);
        ASSERT_STREQ(world_text(world_run(&w), "why"), "s1-0 (10.1.0.0) was lost: it was shut down");
        gang_free(w.g);
}

static void test_shut_down(void) {
        struct world w;

        begin(&w, 2, 1, 2);
        world_shut_down(&w, 1, 0);
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 2);
        ASSERT_EQ(world_width(&w), 1);
        ASSERT_STREQ(world_text(world_run(&w), "cause"), "");
        ASSERT_STREQ(world_text(world_run(&w), "why"), "s1-0 (10.1.0.0) was lost: it was shut down");
        gang_free(w.g);
}

/* tpu-launchd does not answer there: what was said before stays believed, and nothing new is begun. */
static void test_cannot_say(void) {
        struct world w;

        begin(&w, 1, 1, 1);
        w.host[0][1].runs_unknown = w.host[0][1].silent_run = true;
        ASSERT_OK(world_say(&w, 0, 1));
        world_wait(&w, 5 * MINUTE);
        ASSERT_STREQ(world_state(&w), "running");
        w.host[0][1].life++; /* also of an agent that knows nothing yet */
        ASSERT_OK(world_say(&w, 0, 1));
        world_wait(&w, 5 * MINUTE);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_EQ(world_generation(&w), 1);
        world_exit(&w, 0, 0, "exit-code", "exited", "1");
        world_wait(&w, 5 * MINUTE);
        w.host[0][1].runs_unknown = w.host[0][1].silent_run = false;
        w.host[0][1].part.state = PART_STOPPED;
        ASSERT_OK(world_say(&w, 0, 1));
        world_settle(&w);
        ASSERT_STREQ(world_text(world_run(&w), "outcome"), "failed");
        ASSERT_OK(world_want(&w, world_intent("a2", 1, 1, 0)));
        w.host[0][1].runs_unknown = true;
        ASSERT_OK(world_say(&w, 0, 1));
        world_settle(&w);
        ASSERT_STREQ(world_state(&w), "waiting");
        ASSERT_TRUE(strstr(world_waits(&w), "s0-1 (10.0.0.1) cannot say what runs there"));
        gang_free(w.g);
}

/* The planner is another one while an agent is away. */
static void test_taken_over(void) {
        struct world w;
        struct gang *old;

        begin(&w, 2, 1, 2);
        world_gone(&w, 1, 0);
        train(&w, 10 * MINUTE, 5);
        old = w.g;
        w.g = world_reload(&w);
        gang_free(old);
        for (unsigned s = 0; s < 2; s++)
                for (unsigned h = 0; h < 2; h++)
                        if (w.host[s][h].there)
                                ASSERT_OK(world_say(&w, s, h));
        train(&w, 10 * MINUTE, 5);
        ASSERT_EQ(world_generation(&w), 1);
        train(&w, 2 * MINUTE + O.shrink_after, 0);
        ASSERT_EQ(world_generation(&w), 2);
        gang_free(w.g);
}

TEST_MAIN(test_agent_away_steps_go_on, test_power_off_is_quick, test_goes_on_and_then_stops,
          test_second_is_lost,
          test_long_steps, test_nobody_answers, test_all_away_success, test_all_away_failure,
          test_all_away_for_good,
          test_success_but_one, test_success_but_one_for_good, test_ended_then_gone,
          test_back_while_it_waits, test_failure_heard_late,
          test_success_heard_after_peer_lost, test_stopped_the_hard_way, test_shut_down, test_cannot_say,
          test_taken_over)
