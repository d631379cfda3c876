/* SPDX-License-Identifier: Apache-2.0 */
/* Apart from listen.c: who only calls does not load libsystemd, which is most of what it costs to start a small program. */
#include <sys/socket.h>

#include "address.h"
#include "frame.h"

int frame_address(const char *path, struct sockaddr_un *ret) {
        *ret = (struct sockaddr_un) { .sun_family = AF_UNIX };
        if (strlen(path) >= sizeof(ret->sun_path))
                return -ENAMETOOLONG;
        memcpy(ret->sun_path, path, strlen(path) + 1);
        return 0;
}

int frame_connect(const char *path) {
        _cleanup_close_ int fd = -1;
        struct sockaddr_un address;
        int r;

        r = frame_address(path, &address);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        return TAKE_FD(fd);
}
