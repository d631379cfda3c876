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

json_t *strings_to_json(char *const *l) {
        json_t *a = json_array();

        for (size_t i = 0; a && l && l[i]; i++)
                if (json_array_append_new(a, json_string(l[i])) < 0) {
                        json_decref(a);
                        return NULL;
                }
        return a;
}

char **strings_from_json(const json_t *a, size_t max) {
        size_t n = json_array_size(a);
        char **l = n <= max ? calloc(n + 1, sizeof(*l)) : NULL;

        for (size_t i = 0; l && i < n; i++) {
                const char *s = json_string_value(json_array_get(a, i));

                l[i] = s ? strdup(s) : NULL;
                if (!l[i])
                        return strings_free(l);
        }
        return l;
}
