/* SPDX-License-Identifier: Apache-2.0 */
#include "text_list.h"

char **strings_free(char **l) {
        for (size_t i = 0; l && l[i]; i++)
                free(l[i]);
        free(l);
        return NULL;
}

char **strings_copy(const char *const *from, size_t n) {
        char **l = calloc(n + 1, sizeof(*l));

        for (size_t i = 0; l && i < n; i++) {
                l[i] = strdup(from[i]);
                if (!l[i])
                        return strings_free(l);
        }
        return l;
}
