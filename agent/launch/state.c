/* SPDX-License-Identifier: Apache-2.0 */
#include "state.h"

#include <fcntl.h>
#include <sys/stat.h>

static int make_at(const struct host *h, const char *parent, const char *name, mode_t mode) {
        _cleanup_close_ int dir = -1, fd = -1;

        dir = host_open_file(h, parent, O_RDONLY | O_DIRECTORY);
        if (dir < 0)
                return dir;
        if (mkdirat(dir, name, mode) < 0 && errno != EEXIST)
                return -errno;
        fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return -errno;
        if (fchmod(fd, mode) < 0) /* whatever the umask was */
                return -errno;
        return TAKE_FD(fd);
}

int state_open(const struct host *h, const char *name) {
        char path[128];

        (void) snprintf(path, sizeof(path), "%s/%s", PATH_LAUNCHD_STATE, name);
        return host_open_file(h, path, O_RDONLY | O_DIRECTORY);
}

int state_make(const struct host *h, const char *name) {
        return make_at(h, PATH_LAUNCHD_STATE, name, 0700);
}

int state_make_handover(const struct host *h) {
        return make_at(h, PATH_LAUNCHD_RUNTIME, STATE_HANDOVER, 0711);
}

int state_make_secrets(const struct host *h) {
        return make_at(h, PATH_LAUNCHD_RUNTIME, STATE_SECRETS, 0700);
}
