/* SPDX-License-Identifier: Apache-2.0 */
#include "socket_fd.h"

#include <sys/socket.h>

union beside {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
};

ssize_t socket_send(int socket, const void *data, size_t len, int *fd) {
        struct iovec bytes = { .iov_base = (void *) (uintptr_t) data, .iov_len = len }; /* only read */
        struct msghdr m = { .msg_iov = &bytes, .msg_iovlen = 1 };
        union beside beside = { .space = { 0 } };
        ssize_t n;

        if (*fd >= 0) {
                m.msg_control = &beside;
                m.msg_controllen = sizeof(beside);
                beside.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                                  .cmsg_type = SCM_RIGHTS,
                                                  .cmsg_len = CMSG_LEN(sizeof(int)) };
                memcpy(CMSG_DATA(&beside.header), fd, sizeof(int));
        }
        n = sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
                *fd = close_fd(*fd);
        return n;
}

ssize_t socket_receive(int socket, void *buf, size_t size, int *fd) {
        struct iovec bytes = { .iov_base = buf, .iov_len = size };
        union beside beside;
        struct msghdr m = { .msg_iov = &bytes,
                            .msg_iovlen = 1,
                            .msg_control = &beside,
                            /* not the whole of it: a second one would fit in what is there to align it */
                            .msg_controllen = CMSG_LEN(sizeof(int)) };
        ssize_t n = recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

        /* There is room for one: what comes beyond it the kernel closes. */
        if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
            c->cmsg_len == CMSG_LEN(sizeof(int))) {
                *fd = close_fd(*fd);
                memcpy(fd, CMSG_DATA(c), sizeof(int));
        }
        return n;
}
