/* SPDX-License-Identifier: Apache-2.0 */
/* Slices with a suspect host are taken after those without, and never refused. */
#include "gang_world.h"

#define WHY "2 confirmed stalls in 3 days"

static void suspect(struct world *w, const char *first, const char *second) {
        json_t *v = json_pack("{s:s}", first, WHY);

        if (second)
                json_object_set_new(v, second, json_string("1 lost run in 1 day"));
        gang_suspect(w->g, v);
        json_decref(v); /* the planner shares it */
}

/* "s1 s2" */
static const char *taken(const struct world *w) {
        static char text[64];
        size_t i, n = 0;
        json_t *v;

        text[0] = '\0';
        json_array_foreach (json_object_get(world_run(w), "slices"), i, v)
                n += (size_t) snprintf(text + n, sizeof(text) - n, "%s%s", i > 0 ? " " : "",
                                       world_text(v, "slice"));
        return text;
}

static const char *note(const struct world *w, size_t i) {
        const char *text = json_string_value(json_array_get(json_object_get(world_run(w), "notes"), i));

        return text ? text : "(none)";
}

static void begin(struct world *w, unsigned slices, unsigned min, unsigned max) {
        ASSERT_OK(world_want(w, world_intent("a1", min, max, 9)));
        world_settle(w);
        if (streq(world_state(w), "waiting"))
                world_wait(w, gang_default_options.last_call);
        ASSERT_STREQ(world_state(w), "running");
        ASSERT_EQ(world_width(w), slices);
}

static void test_another_is_taken(void) {
        struct world w;

        world_new(&w, 3, 2);
        world_join_all(&w);
        suspect(&w, "s0-1", NULL);
        begin(&w, 1, 1, 1);
        ASSERT_STREQ(taken(&w), "s1");
        ASSERT_STREQ(note(&w, 0), "slice s0 has the suspect host s0-1 (" WHY "): others were taken");
        ASSERT_STREQ(note(&w, 1), "(none)");
        gang_free(w.g);
}

/* Where there is no choice it is taken, and the order stays the intent's. */
static void test_none_is_refused(void) {
        struct world w;

        world_new(&w, 3, 2);
        world_join_all(&w);
        suspect(&w, "s0-1", "s2-0");
        w.host[1][0].warns = "one of its NICs is slow";
        begin(&w, 3, 1, 3);
        ASSERT_STREQ(taken(&w), "s0 s1 s2");
        ASSERT_STREQ(note(&w, 0), "slice s0 has the suspect host s0-1 (" WHY "): it was taken last");
        ASSERT_STREQ(note(&w, 1),
                     "slice s2 has the suspect host s2-0 (1 lost run in 1 day): it was taken last");
        ASSERT_STREQ(note(&w, 2), "s1: s1-0 (10.1.0.0): one of its NICs is slow");
        gang_free(w.g);
}

static void test_one_of_two_is_enough(void) {
        struct world w;

        world_new(&w, 3, 1);
        world_join_all(&w);
        suspect(&w, "s1-0", "s0-0");
        begin(&w, 2, 2, 2);
        ASSERT_STREQ(taken(&w), "s0 s2");
        ASSERT_STREQ(note(&w, 0),
                     "slice s0 has the suspect host s0-0 (1 lost run in 1 day): it was taken last");
        ASSERT_STREQ(note(&w, 1), "slice s1 has the suspect host s1-0 (" WHY "): others were taken");
        gang_free(w.g);
}

/* A larger group of alike slices is no better than one that is large enough and has no suspect. */
static void test_of_groups(void) {
        struct world w;

        world_new(&w, 3, 1);
        w.host[2][0].digest = "d2";
        world_join_all(&w);
        suspect(&w, "s0-0", "s1-0");
        begin(&w, 1, 1, 1);
        ASSERT_STREQ(taken(&w), "s2");
        gang_free(w.g);
        world_new(&w, 3, 1); /* but one that is wide enough is */
        w.host[2][0].digest = "d2";
        world_join_all(&w);
        suspect(&w, "s0-0", "s1-0");
        begin(&w, 2, 1, 2);
        ASSERT_STREQ(taken(&w), "s0 s1");
        gang_free(w.g);
}

static void fail(struct world *w, unsigned slice) {
        world_exit(w, slice, 0, "exit-code", "exited", "1");
        world_settle(w);
        world_wait(w, gang_default_options.backoff_max);
}

/* A run keeps its slices over a restart, unless one of them became suspect and another is free. */
static void test_restarted(void) {
        struct world w;

        world_new(&w, 2, 1);
        world_join_all(&w);
        begin(&w, 1, 1, 1);
        ASSERT_STREQ(taken(&w), "s0");
        suspect(&w, "s1-0", NULL);
        fail(&w, 0);
        ASSERT_STREQ(taken(&w), "s0");
        ASSERT_EQ(world_generation(&w), 2);
        suspect(&w, "s0-0", NULL);
        fail(&w, 0);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_STREQ(taken(&w), "s1");
        ASSERT_STREQ(note(&w, 0), "slice s0 has the suspect host s0-0 (" WHY "): others were taken");
        ASSERT_EQ(w.host[0][0].part.state == PART_RUNNING, 0);
        gang_suspect(w.g, NULL); /* and nobody is one for ever */
        fail(&w, 1);
        ASSERT_STREQ(taken(&w), "s1");
        ASSERT_STREQ(note(&w, 0), "(none)");
        gang_free(w.g);
}

static void test_grows(void) {
        struct world w;

        world_new(&w, 3, 1);
        world_join(&w, 0, 0);
        world_settle(&w);
        begin(&w, 1, 1, 2);
        suspect(&w, "s1-0", NULL);
        world_join(&w, 1, 0);
        world_join(&w, 2, 0);
        world_settle(&w);
        world_wait(&w, gang_default_options.grow_after);
        ASSERT_STREQ(world_state(&w), "running");
        ASSERT_STREQ(taken(&w), "s0 s2");
        ASSERT_TRUE(strstr(world_text(world_run(&w), "why"), "slice s2 is ready"));
        gang_free(w.g);
}

TEST_MAIN(test_another_is_taken, test_none_is_refused, test_one_of_two_is_enough, test_of_groups,
          test_restarted, test_grows)
