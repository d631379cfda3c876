/* SPDX-License-Identifier: Apache-2.0 */
#include "placeholder.h"

#include <assert.h>

void placeholder_fill(char *text, size_t size, const char *word, const char *value) {
        size_t n = strlen(value), left;

        assert(size > 0 && word[0]);
        for (char *at = text; (at = strstr(at, word)); at += n) {
                char *rest = at + strlen(word);

                left = size - (size_t) (at - text) - 1; /* for the value and what is behind it */
                n = MIN(n, left);
                memmove(at + n, rest, MIN(strlen(rest), left - n) + 1);
                memcpy(at, value, n);
                text[size - 1] = '\0';
        }
}
