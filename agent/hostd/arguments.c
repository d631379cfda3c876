/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "arguments.h"
#include "utf8.h"

#define KEY_SHOWN 40 /* bytes of a name that is not ours */

static int wrong(struct arguments *a, const char *key, const char *what) {
        char shown[KEY_SHOWN + 1];

        utf8_copy(shown, sizeof(shown), key);
        (void) snprintf(a->why, sizeof(a->why), "%s= %s", shown, what);
        return -EINVAL;
}

static int unknown(struct arguments *a, const char *key) {
        char text[ARGUMENTS_WHY_MAX - KEY_SHOWN - 4] = "is not known; this call takes none";
        size_t n = strlen("is not known; this call takes ");

        for (size_t i = 0; i < ARGUMENTS_MAX && a->allowed[i]; i++)
                n += (size_t) snprintf(text + n, sizeof(text) - n, "%s%s=", i > 0 ? ", " : "", a->allowed[i]);
        return wrong(a, key, text);
}

int arguments_take(struct arguments *a, const char *key) {
        for (size_t i = 0; i < ARGUMENTS_MAX && a->allowed[i]; i++) {
                if (!streq(key, a->allowed[i]))
                        continue;
                if (a->seen & 1U << i)
                        return wrong(a, key, "is given twice");
                a->seen |= 1U << i;
                return 0;
        }
        return unknown(a, key);
}

int argument_number(const char *value, uint64_t most, uint64_t *ret) {
        uint64_t n = 0;

        if (!*value)
                return -EINVAL;
        for (; *value; value++) {
                unsigned digit = (unsigned) (*value - '0');

                if (!isdigit((unsigned char) *value) || n > (most - MIN(most, (uint64_t) digit)) / 10)
                        return -EINVAL;
                n = n * 10 + digit;
        }
        if (n > most)
                return -EINVAL;
        *ret = n;
        return 0;
}
