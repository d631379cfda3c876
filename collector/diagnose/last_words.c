/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "last_words.h"

static const struct {
        const char *cause;
        enum word_weight weight;
} weights[] = {
        { "oom-kill", WORD_PROVEN },
        { "device-busy", WORD_PROVEN },
        { "device-lost", WORD_PROVEN },
        { "preempted", WORD_PROVEN },
        { "host-down", WORD_PROVEN },
        { "not-started", WORD_PROVEN },
        { "never-restart", WORD_PROVEN },
        { "unkillable", WORD_PROVEN },
        { "configuration", WORD_PROVEN },
        { "peer-lost", WORD_EFFECT },
        { "hang", WORD_EFFECT },
        { "timeout", WORD_EFFECT },
        { "stopped", WORD_EFFECT },
        { "success", WORD_SUCCESS },
};

enum word_weight last_words_weight(const char *cause) {
        for (size_t i = 0; i < ELEMENTSOF(weights); i++)
                if (streq(cause, weights[i].cause))
                        return weights[i].weight;
        return WORD_OWN;
}

/* The earliest of this weight and, both given, of the other; -1: there is none. */
static ssize_t earliest(const struct last_word *words, size_t n, enum word_weight a, enum word_weight b) {
        ssize_t found = -1;

        for (size_t i = 0; i < n; i++)
                if ((words[i].weight == a || words[i].weight == b) &&
                    (found < 0 || words[i].time < words[found].time))
                        found = (ssize_t) i;
        return found;
}

/* Where the lost connections lead from here; -1: from one to the other and back. */
static ssize_t lost_end(const struct last_word *words, size_t n, size_t from) {
        for (size_t steps = 0; steps <= n; steps++) {
                size_t lost = words[from].weight == WORD_EFFECT ? words[from].lost : 0;

                if (lost == 0 || lost == from + 1)
                        return (ssize_t) from;
                assert(lost <= n);
                from = lost - 1;
        }
        return -1;
}

ssize_t last_words_lost(const struct last_word *words, size_t n) {
        size_t best = 0, most = 0, as_many = 0;
        size_t *votes = calloc(n + 1, sizeof(*votes));

        for (size_t i = 0; votes && i < n; i++) {
                ssize_t end = lost_end(words, n, i);

                if (end >= 0 && (size_t) end != i)
                        votes[end]++;
        }
        for (size_t i = 0; votes && i < n; i++) {
                as_many = votes[i] > most ? 1 : as_many + (votes[i] == most);
                if (votes[i] > most) {
                        most = votes[i];
                        best = i;
                }
        }
        free(votes);
        return most > 0 && as_many == 1 ? (ssize_t) best : -1;
}

/* Who alone is proven, or alone is no effect; -1: nobody. */
static ssize_t only(const struct last_word *words, size_t n, bool proven) {
        ssize_t found = -1;

        for (size_t i = 0; i < n; i++)
                if (proven ? words[i].weight == WORD_PROVEN : words[i].weight != WORD_EFFECT) {
                        if (found >= 0)
                                return -1;
                        found = (ssize_t) i;
                }
        return found;
}

ssize_t last_words_clockless(const struct last_word *words, size_t n) {
        ssize_t found = only(words, n, true);

        if (found < 0)
                found = only(words, n, false);
        for (size_t i = 0; i < n && found < 0; i++)
                if (words[i].weight != WORD_EFFECT)
                        return -1; /* one of several: when they ended must tell */
        return found < 0 ? last_words_lost(words, n) : found;
}

ssize_t last_words_first(const struct last_word *words, size_t n) {
        ssize_t first = earliest(words, n, WORD_OWN, WORD_PROVEN),
                proven = earliest(words, n, WORD_PROVEN, WORD_PROVEN);

        if (proven >= 0 && words[proven].time <= words[first].time + LAST_WORDS_LATE)
                return proven;
        if (first >= 0)
                return first;
        first = last_words_lost(words, n);
        if (first >= 0)
                return first;
        first = earliest(words, n, WORD_SIGN, WORD_SIGN);
        if (first >= 0 || earliest(words, n, WORD_EFFECT, WORD_EFFECT) < 0)
                return first;
        return earliest(words, n, WORD_SUCCESS, WORD_SUCCESS);
}
