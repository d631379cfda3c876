/* SPDX-License-Identifier: Apache-2.0 */
/* Which of what a run's hosts told was first, over all orders of what can be told. */
#include "last_words.h"
#include "test.h"

static ssize_t first_of(size_t n, const struct last_word *words) {
        ssize_t first = last_words_first(words, n);

        /* The order in which it was told is no evidence. */
        for (size_t shift = 1; shift < n; shift++) {
                struct last_word turned[8];
                ssize_t again;

                for (size_t i = 0; i < n; i++)
                        turned[i] = words[(i + shift) % n];
                again = last_words_first(turned, n);
                ASSERT_EQ(again < 0, first < 0);
                ASSERT_TRUE(again < 0 || (turned[again].weight == words[first].weight &&
                                          turned[again].time == words[first].time));
        }
        return first;
}
#define FIRST(...)                                                                                          \
        first_of(sizeof((struct last_word[]){ __VA_ARGS__ }) / sizeof(struct last_word),                    \
                 (struct last_word[]){ __VA_ARGS__ })

static void test_rules(void) {
        const usec_t s = USEC_PER_SEC;

        ASSERT_EQ(last_words_first(NULL, 0), -1);
        ASSERT_EQ(FIRST({ WORD_EFFECT, s }), -1);
        ASSERT_EQ(FIRST({ WORD_SUCCESS, s }, { WORD_SUCCESS, 2 * s }), -1);
        ASSERT_EQ(FIRST({ WORD_EFFECT, 2 * s }, { WORD_SUCCESS, s }), 1);
        ASSERT_EQ(FIRST({ WORD_EFFECT, s }, { WORD_SIGN, 3 * s }, { WORD_SUCCESS, s }), 1);
        ASSERT_EQ(FIRST({ WORD_SIGN, s }, { WORD_OWN, 3 * s }, { WORD_OWN, 4 * s }), 1);
        ASSERT_EQ(FIRST({ WORD_OWN, s }, { WORD_PROVEN, s + LAST_WORDS_LATE }), 1);
        ASSERT_EQ(FIRST({ WORD_OWN, s }, { WORD_PROVEN, s + LAST_WORDS_LATE + 1 }), 0);
        ASSERT_EQ(FIRST({ WORD_PROVEN, 9 * s }, { WORD_PROVEN, 8 * s }, { WORD_OWN, s }), 1);
}

static void test_causes(void) {
        ASSERT_EQ(last_words_weight("oom-kill"), WORD_PROVEN);
        ASSERT_EQ(last_words_weight("peer-lost"), WORD_EFFECT);
        ASSERT_EQ(last_words_weight("success"), WORD_SUCCESS);
        ASSERT_EQ(last_words_weight("core-dump"), WORD_OWN);
        ASSERT_EQ(last_words_weight("of a later agent"), WORD_OWN);
        ASSERT_EQ(last_words_weight(""), WORD_OWN);
}

TEST_MAIN(test_rules, test_causes)
