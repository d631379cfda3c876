/* SPDX-License-Identifier: Apache-2.0 */
#include "probe_program.h"

#include <fcntl.h>
#include <unistd.h>

#include "private_program.h"

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
