/* SPDX-License-Identifier: Apache-2.0 */
#include "proof_words.h"

static const char *const answers[] = {
        [PROOF_OPEN] = "open",       [PROOF_PASSES] = "passes", [PROOF_PIECES] = "pieces",
        [PROOF_SMALLER] = "smaller", [PROOF_SILENT] = "silent", [PROOF_REFUSED] = "refused",
};

static const char *const directions[] = {
        [PROOF_DIRECTION_UNKNOWN] = "unknown",
        [PROOF_THERE] = "there",
        [PROOF_BACK] = "back",
};

const char *proof_answer_word(enum proof_answer a) {
        return answers[a];
}

const char *proof_direction_word(enum proof_direction d) {
        return directions[d];
}

static int find(const char *const *words, size_t n, const char *word) {
        for (size_t i = 0; i < n; i++)
                if (streq(words[i], word))
                        return (int) i;
        return -EINVAL;
}

int proof_answer_parse(const char *word, enum proof_answer *ret) {
        int i = find(answers, ELEMENTSOF(answers), word);

        if (i < 0)
                return i;
        *ret = (enum proof_answer) i;
        return 0;
}

int proof_direction_parse(const char *word, enum proof_direction *ret) {
        int i = find(directions, ELEMENTSOF(directions), word);

        if (i < 0)
                return i;
        *ret = (enum proof_direction) i;
        return 0;
}
