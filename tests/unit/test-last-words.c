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

                for (size_t i = 0; i < n; i++) {
                        turned[i] = words[(i + shift) % n];
                        if (turned[i].lost > 0)
                                turned[i].lost = (turned[i].lost - 1 + n - shift) % n + 1;
                }
                again = last_words_first(turned, n);
                ASSERT_EQ(again < 0, first < 0);
                ASSERT_TRUE(again < 0 || (turned[again].weight == words[first].weight &&
                                          turned[again].time == words[first].time));
        }
        return first;
}
#define W(of, when) { .weight = (of), .time = (when) }
#define LOST(when, whom) { .weight = WORD_EFFECT, .time = (when), .lost = (whom) + 1 }
#define FIRST(...)                                                                                          \
        first_of(sizeof((struct last_word[]){ __VA_ARGS__ }) / sizeof(struct last_word),                    \
                 (struct last_word[]){ __VA_ARGS__ })

static void test_rules(void) {
        const usec_t s = USEC_PER_SEC;

        ASSERT_EQ(last_words_first(NULL, 0), -1);
        ASSERT_EQ(FIRST(W(WORD_EFFECT, s)), -1);
        ASSERT_EQ(FIRST(W(WORD_SUCCESS, s), W(WORD_SUCCESS, 2 * s)), -1);
        ASSERT_EQ(FIRST(W(WORD_EFFECT, 2 * s), W(WORD_SUCCESS, s)), 1);
        ASSERT_EQ(FIRST(W(WORD_EFFECT, s), W(WORD_SIGN, 3 * s), W(WORD_SUCCESS, s)), 1);
        ASSERT_EQ(FIRST(W(WORD_SIGN, s), W(WORD_OWN, 3 * s), W(WORD_OWN, 4 * s)), 1);
        ASSERT_EQ(FIRST(W(WORD_OWN, s), W(WORD_PROVEN, s + LAST_WORDS_LATE)), 1);
        ASSERT_EQ(FIRST(W(WORD_OWN, s), W(WORD_PROVEN, s + LAST_WORDS_LATE + 1)), 0);
        ASSERT_EQ(FIRST(W(WORD_PROVEN, 9 * s), W(WORD_PROVEN, 8 * s), W(WORD_OWN, s)), 1);
}

/* Nobody ended by itself, by what is known: h0 and h2 of a ring lost h3, h1 was stopped, and so was h3. */
static void test_lost_connections(void) {
        const usec_t s = USEC_PER_SEC;

        ASSERT_EQ(FIRST(LOST(s, 3), W(WORD_EFFECT, s), LOST(s, 3), W(WORD_EFFECT, 2 * s)), 3);
        ASSERT_EQ(FIRST(LOST(s, 1), LOST(2 * s, 2), W(WORD_EFFECT, 3 * s)), 2); /* one behind the other */
        ASSERT_EQ(FIRST(LOST(s, 1), LOST(s, 0), W(WORD_EFFECT, s)), -1); /* each lost the other */
        ASSERT_EQ(FIRST(LOST(s, 1), W(WORD_EFFECT, s), LOST(s, 3), W(WORD_EFFECT, s)), -1); /* one each */
        ASSERT_EQ(FIRST(LOST(s, 0), LOST(s, 0)), 0); /* its own other process is nobody else */
        ASSERT_EQ(FIRST(LOST(s, 1), W(WORD_EFFECT, s), W(WORD_SIGN, s)), 1);
        ASSERT_EQ(FIRST(LOST(s, 1), W(WORD_EFFECT, s), W(WORD_OWN, 9 * s)), 2);
}

/* A ring of a whole fleet, each of which names its neighbour, up to one that names nobody; and closed. */
static void test_long_chain(void) {
        static struct last_word words[200000];
        const size_t n = ELEMENTSOF(words);

        for (size_t i = 0; i < n; i++)
                words[i] = (struct last_word) LOST(1, i + 1);
        words[n - 1].lost = 0;
        ASSERT_EQ(last_words_lost(words, n), (ssize_t) n - 1);
        words[n - 1].lost = 1;
        ASSERT_EQ(last_words_lost(words, n), -1);
}

#define CLOCKLESS(...)                                                                                      \
        last_words_clockless((struct last_word[]){ __VA_ARGS__ },                                           \
                             sizeof((struct last_word[]){ __VA_ARGS__ }) / sizeof(struct last_word))

static void test_without_clocks(void) {
        ASSERT_EQ(CLOCKLESS(W(WORD_EFFECT, 1), W(WORD_OWN, 9), W(WORD_EFFECT, 2)), 1);
        ASSERT_EQ(CLOCKLESS(W(WORD_OWN, 1), W(WORD_OWN, 9), W(WORD_EFFECT, 2)), -1);
        ASSERT_EQ(CLOCKLESS(W(WORD_OWN, 1), W(WORD_OWN, 9), W(WORD_PROVEN, 20)), 2);
        ASSERT_EQ(CLOCKLESS(W(WORD_SUCCESS, 1), W(WORD_OWN, 9), W(WORD_EFFECT, 2)), -1);
        ASSERT_EQ(CLOCKLESS(W(WORD_EFFECT, 1), W(WORD_SUCCESS, 9), W(WORD_EFFECT, 2)), 1);
        ASSERT_EQ(CLOCKLESS(LOST(1, 2), W(WORD_EFFECT, 1), W(WORD_EFFECT, 9)), 2);
        ASSERT_EQ(CLOCKLESS(W(WORD_SUCCESS, 1), W(WORD_SUCCESS, 9)), -1);
        ASSERT_EQ(CLOCKLESS(W(WORD_EFFECT, 1), W(WORD_EFFECT, 9)), -1);
}

static void test_causes(void) {
        ASSERT_EQ(last_words_weight("oom-kill"), WORD_PROVEN);
        ASSERT_EQ(last_words_weight("peer-lost"), WORD_EFFECT);
        ASSERT_EQ(last_words_weight("success"), WORD_SUCCESS);
        ASSERT_EQ(last_words_weight("core-dump"), WORD_OWN);
        ASSERT_EQ(last_words_weight("of a later agent"), WORD_OWN);
        ASSERT_EQ(last_words_weight(""), WORD_OWN);
}

TEST_MAIN(test_rules, test_lost_connections, test_long_chain, test_without_clocks, test_causes)
