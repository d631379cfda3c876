/* SPDX-License-Identifier: Apache-2.0 */
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

ssize_t last_words_first(const struct last_word *words, size_t n) {
        ssize_t first = earliest(words, n, WORD_OWN, WORD_PROVEN),
                proven = earliest(words, n, WORD_PROVEN, WORD_PROVEN);

        if (proven >= 0 && words[proven].time <= words[first].time + LAST_WORDS_LATE)
                return proven;
        if (first >= 0)
                return first;
        first = earliest(words, n, WORD_SIGN, WORD_SIGN);
        if (first >= 0 || earliest(words, n, WORD_EFFECT, WORD_EFFECT) < 0)
                return first;
        return earliest(words, n, WORD_SUCCESS, WORD_SUCCESS);
}
