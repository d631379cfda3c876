/* SPDX-License-Identifier: Apache-2.0 */
#include "probe_program.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#define NAME "tpu-hostd-probe"
#define INSTALLED PRIVATE_PROGRAMS "/" NAME

static int open_beside(void) {
        char path[PATH_MAX + sizeof(NAME)];
        ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
        char *end;
        int fd;

        if (n < 0)
                return -errno;
        if (n == PATH_MAX)
                return -ENAMETOOLONG;
        path[n] = 0;
        end = strrchr(path, '/');
        if (!end)
                return -ENOENT;
        memcpy(end + 1, NAME, sizeof(NAME));
        fd = open(path, O_PATH | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int probe_program_open(struct probe_program *ret) {
        int fd = open_beside();

        *ret = PROBE_PROGRAM_NULL;
        if (fd < 0) {
                fd = open(INSTALLED, O_PATH | O_CLOEXEC);
                if (fd < 0) {
                        ret->program.path = INSTALLED;
                        return -errno;
                }
        }
        ret->fd = fd;
        (void) snprintf(ret->path, sizeof(ret->path), "/proc/self/fd/%d", fd);
        ret->program.path = ret->path;
        return 0;
}

void probe_program_close(struct probe_program *p) {
        p->fd = close_fd(p->fd);
}
