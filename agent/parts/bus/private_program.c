/* SPDX-License-Identifier: Apache-2.0 */
#include "private_program.h"

#include <unistd.h>

static int find_beside(const char *name, char ret[static PATH_MAX]) {
        char path[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
        char *end;

        if (n < 0)
                return -errno;
        path[n] = '\0';
        end = strrchr(path, '/');
        if (!end || (size_t) snprintf(ret, PATH_MAX, "%.*s/%s", (int) (end - path), path, name) >= PATH_MAX)
                return -ENAMETOOLONG;
        return access(ret, X_OK) < 0 ? -errno : 0;
}

int private_program_find(const char *name, char ret[static PATH_MAX]) {
        if (find_beside(name, ret) == 0)
                return 0;
        (void) snprintf(ret, PATH_MAX, "%s/%s", PRIVATE_PROGRAMS, name);
        return access(ret, X_OK) < 0 ? -errno : 0;
}
