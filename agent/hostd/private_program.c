/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <unistd.h>

#include "private_program.h"

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

#define NAME "tpu-hostd-probe"

int probe_program_open(struct probe_program *ret) {
        char path[PATH_MAX];
        int r = private_program_find(NAME, path), fd = r < 0 ? r : open(path, O_PATH | O_CLOEXEC);

        *ret = PROBE_PROGRAM_NULL;
        if (fd < 0) {
                ret->program.path = PRIVATE_PROGRAMS "/" NAME;
                return r < 0 ? r : -errno;
        }
        ret->fd = fd;
        (void) snprintf(ret->path, sizeof(ret->path), "/proc/self/fd/%d", fd);
        ret->program.path = ret->path;
        return 0;
}

void probe_program_close(struct probe_program *p) {
        p->fd = close_fd(p->fd);
}
