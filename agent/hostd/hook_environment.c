/* SPDX-License-Identifier: Apache-2.0 */
#include "hook_environment.h"

bool hook_environment_add(char **list, const char *key, const char *value) {
        size_t n = 0;

        while (list[n])
                n++;
        if (n >= HOOK_ENVIRONMENT_MAX || asprintf(&list[n], "%s=%s", key, value) < 0) {
                list[MIN(n, (size_t) HOOK_ENVIRONMENT_MAX)] = NULL;
                return false;
        }
        return true;
}

void hook_environment_free(char **list) {
        for (size_t i = 0; list && list[i]; i++)
                free(list[i]);
        free(list);
}
