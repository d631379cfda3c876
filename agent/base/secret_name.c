/* SPDX-License-Identifier: Apache-2.0 */
#include "secret_name.h"

#include <strings.h>

static bool has_word(const char *name, size_t len, const char *word) {
        size_t n = strlen(word);

        for (size_t i = 0; i + n <= len; i++)
                if (strncasecmp(name + i, word, n) == 0)
                        return true;
        return false;
}

bool name_is_secret(const char *name, size_t len) {
        static const char *const words[] = { "SECRET", "TOKEN", "PASSW", "CREDENTIAL" };

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (has_word(name, len, words[i]))
                        return true;
        return len >= 3 && strncasecmp(name + len - 3, "KEY", 3) == 0;
}
