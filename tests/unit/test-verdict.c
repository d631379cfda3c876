/* SPDX-License-Identifier: Apache-2.0 */
/* Which verdicts confirm a stall, and which are looked at again. */
#include "test.h"
#include "episode.h"

static const struct verdict_text stuck = { .outcome = "named", .host = "h0" },
                                 saves = { .outcome = "named", .host = "h0", .saves = true, .moved = true },
                                 saves_still = { .outcome = "named", .host = "h0", .saves = true },
                                 loops = { .outcome = "named", .host = "h0", .moved = true },
                                 nobody = { .outcome = "nobody" }, works = { .outcome = "works" };

static void test_confirms(void) {
        const struct verdict_case stall = { .suspected = true, .stalls = true }, odd = { .suspected = true },
                                  told = { .suspected = true, .stalls = true, .pauses = true },
                                  asked = { 0 };

        ASSERT_EQ(verdict_judge(&stuck, &stall), VERDICT_CONFIRMS);
        ASSERT_EQ(verdict_judge(&stuck, &odd), VERDICT_CONFIRMS);
        ASSERT_EQ(verdict_judge(&loops, &stall), VERDICT_CONFIRMS);
        ASSERT_EQ(verdict_judge(&nobody, &stall), VERDICT_CONFIRMS);
        ASSERT_EQ(verdict_judge(&nobody, &odd), VERDICT_SAYS_NOTHING);
        ASSERT_EQ(verdict_judge(&works, &stall), VERDICT_SAYS_NOTHING);
        ASSERT_EQ(verdict_judge(&stuck, &told), VERDICT_SAYS_NOTHING);
        ASSERT_EQ(verdict_judge(&stuck, &asked), VERDICT_SAYS_NOTHING);
}

/* Slow, but it gets on: not confirmed in the first two rounds. One that hangs is confirmed as soon as
 * nothing moves. */
static void test_progress(void) {
        struct verdict_case c = { .suspected = true, .stalls = true };

        ASSERT_EQ(verdict_judge(&saves, &c), VERDICT_PROGRESSES);
        ASSERT_EQ(verdict_judge(&saves_still, &c), VERDICT_CONFIRMS);
        c.works = true; /* the same line for long, but bytes are written */
        ASSERT_EQ(verdict_judge(&saves_still, &c), VERDICT_PROGRESSES);
        ASSERT_EQ(verdict_judge(&loops, &c), VERDICT_CONFIRMS);
        c.excused = 1;
        ASSERT_EQ(verdict_judge(&saves, &c), VERDICT_PROGRESSES);
        ASSERT_EQ(verdict_judge(&stuck, &c), VERDICT_CONFIRMS);
        c.excused = 2;
        ASSERT_EQ(verdict_judge(&saves, &c), VERDICT_CONFIRMS);
}

static void test_read(void) {
        struct verdict_text v;
        json_t *report = json_pack("{s:s, s:s, s:[{s:s, s:s, s:b, s:b, s:f}]}", "outcome", "named",
                                   "summary", "x",
                                   "suspects", "host", "h0", "sentence", "y", "moved", 1, "saves", 1,
                                   "score", 0.9),
               *less = json_pack("{s:s, s:[{s:s}]}", "outcome", "named", "suspects", "host", "h0"),
               *none = json_object();

        ASSERT_OK(verdict_read(report, &v));
        ASSERT_TRUE(v.moved && v.saves);
        ASSERT_STREQ(v.host, "h0");
        ASSERT_OK(verdict_read(less, &v)); /* it says nothing of that */
        ASSERT_FALSE(v.moved || v.saves);
        ASSERT_EQ(verdict_read(none, &v), -EBADMSG);
        json_decref(report);
        json_decref(less);
        json_decref(none);
}

/* Which episodes are of one stall: never of two slices whose runs are only called alike. */
static void test_of_one_stall(void) {
        const struct episode first = { .run = "train", .slice = "s0", .generation = 3, .at = 1 },
                             other = { .run = "train", .slice = "s1", .generation = 3, .at = 2 },
                             own = { .run = "train", .slice = "s0", .at = 1 },
                             beside = { .run = "train", .slice = "s1", .at = 1 },
                             again = { .run = "train", .slice = "s0", .at = 2 },
                             long_after = { .run = "train", .slice = "s0", .at = 2 * EPISODES_STALL_TIME };

        ASSERT_TRUE(episode_is_of_stall(&first, &other)); /* the registry's: it may have many slices */
        ASSERT_FALSE(episode_is_of_stall(&first, &own));
        ASSERT_FALSE(episode_is_of_stall(&own, &beside));
        ASSERT_TRUE(episode_is_of_stall(&own, &again));
        ASSERT_FALSE(episode_is_of_stall(&own, &long_after));
}

/* As many as hosts like to begin for themselves: what was asked for stays, and so does one that is looked
 * at. */
static void test_room(void) {
        struct episode *list = NULL, *looking;
        char id[32];
        size_t own = 0, all = 0;

        ASSERT_TRUE(episode_add(&list, "train-3-1", NULL));
        looking = episode_add(&list, "own.train-3-1", NULL);
        for (unsigned i = 0; i < 10 * EPISODES_OPEN_MAX; i++) {
                (void) snprintf(id, sizeof(id), "own.x-1-%u", i);
                ASSERT_TRUE(episode_add(&list, id, looking));
        }
        ASSERT_TRUE(episode_find(list, "train-3-1") && episode_find(list, "own.train-3-1"));
        for (unsigned i = 0; i < 10 * EPISODES_OPEN_MAX; i++) {
                (void) snprintf(id, sizeof(id), "x-1-%u", i);
                ASSERT_TRUE(episode_add(&list, id, looking));
        }
        for (const struct episode *x = list; x; x = x->next, all++)
                own += episode_is_own(x->id);
        ASSERT_TRUE(all <= EPISODES_OPEN_MAX + 1 && own <= 1);
        ASSERT_FALSE(episode_find(list, "train-3-1"));
        episode_list_clear(&list);
}

TEST_MAIN(test_confirms, test_progress, test_read, test_of_one_stall, test_room)
