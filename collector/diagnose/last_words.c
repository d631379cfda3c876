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

/* Whom this one lost: its place + 1; 0: nobody, or itself. */
static size_t lost_by(const struct last_word *words, size_t n, size_t i) {
        size_t lost = words[i].weight == WORD_EFFECT ? words[i].lost : 0;

        assert(lost <= n);
        return lost == i + 1 ? 0 : lost;
}

struct lost_node {
        size_t lost_by; /* how many say so, whose own losers are not all counted yet */
        size_t behind;  /* how many lead here, itself included */
        size_t next;    /* place of a list */
};

/* Counts from those that nobody lost, one by one: who is in a circle is never reached, and leads nowhere. */
static void count_behind(const struct last_word *words, size_t n, struct lost_node *nodes) {
        size_t done = 0, listed = 0;

        for (size_t i = 0; i < n; i++) {
                nodes[i].behind = 1;
                if (lost_by(words, n, i) > 0)
                        nodes[lost_by(words, n, i) - 1].lost_by++;
        }
        for (size_t i = 0; i < n; i++)
                if (nodes[i].lost_by == 0)
                        nodes[listed++].next = i;
        while (done < listed) {
                size_t i = nodes[done++].next, lost = lost_by(words, n, i);

                if (lost == 0)
                        continue;
                nodes[lost - 1].behind += nodes[i].behind;
                if (--nodes[lost - 1].lost_by == 0)
                        nodes[listed++].next = lost - 1;
        }
}

ssize_t last_words_lost(const struct last_word *words, size_t n) {
        struct lost_node *nodes = calloc(n + 1, sizeof(*nodes));
        size_t best = 0, most = 1, as_many = 0;

        if (!nodes)
                return -1;
        count_behind(words, n, nodes);
        for (size_t i = 0; i < n; i++) {
                if (lost_by(words, n, i) > 0 || nodes[i].lost_by > 0)
                        continue;
                as_many = nodes[i].behind > most ? 1 : as_many + (nodes[i].behind == most);
                if (nodes[i].behind > most) {
                        most = nodes[i].behind;
                        best = i;
                }
        }
        free(nodes);
        return most > 1 && as_many == 1 ? (ssize_t) best : -1;
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
