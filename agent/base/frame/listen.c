/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include "address.h"
#include "frame.h"

static int bind_new(const char *path, mode_t mode) {
        _cleanup_close_ int fd = -1, living = frame_connect(path);
        struct sockaddr_un address;
        int r;

        if (living >= 0 || living == -EAGAIN)
                return -EADDRINUSE; /* somebody serves it: a second daemon must not take it away */
        r = frame_address(path, &address);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        if (unlink(path) < 0 && errno != ENOENT)
                return -errno;
        /* The mode is set before listen(2), so that nobody connects while it is still the umask's. */
        if (bind(fd, (const struct sockaddr *) &address, sizeof(address)) < 0 || chmod(path, mode) < 0 || listen(fd, SOMAXCONN) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int listen_socket(const char *path, mode_t mode) {
        int n = sd_listen_fds(true);

        if (n < 0)
                return n;
        if (n == 0)
                return bind_new(path, mode);
        if (n > 1 || sd_is_socket(SD_LISTEN_FDS_START, AF_UNIX, SOCK_STREAM, 1) <= 0)
                return -EINVAL;
        if (fcntl(SD_LISTEN_FDS_START, F_SETFL, O_NONBLOCK) < 0)
                return -errno;
        return SD_LISTEN_FDS_START;
}
