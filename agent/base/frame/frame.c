/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include <poll.h>
#include <sys/socket.h>

#include "clock.h"
#include "frame_header.h"

int frame_pack(uint16_t kind, const ProtobufCMessage *m, uint8_t **ret, size_t *ret_len) {
        size_t len = protobuf_c_message_get_packed_size(m);
        uint8_t *buf;

        if (len > FRAME_MAX)
                return -E2BIG;
        buf = malloc(FRAME_HEADER_SIZE + len);
        if (!buf)
                return -ENOMEM;
        frame_header_put(buf, (uint32_t) len, kind);
        (void) protobuf_c_message_pack(m, buf + FRAME_HEADER_SIZE); /* writes what get_packed_size() said */
        *ret = buf;
        *ret_len = FRAME_HEADER_SIZE + len;
        return 0;
}

/* Waits until fd is ready for events or the deadline (boot clock) passes. */
static int wait_ready(int fd, short events, usec_t deadline) {
        for (;;) {
                struct pollfd p = { .fd = fd, .events = events };
                usec_t now = clock_boot(&clock_system);
                int n;

                if (now >= deadline)
                        return -ETIMEDOUT;
                n = poll(&p, 1, (int) MIN((deadline - now) / USEC_PER_MSEC + 1, (usec_t) INT32_MAX));
                if (n > 0)
                        return 0;
                if (n < 0 && errno != EINTR)
                        return -errno;
        }
}

static usec_t deadline_after(usec_t timeout) {
        usec_t now = clock_boot(&clock_system);

        return timeout > USEC_INFINITY - now ? USEC_INFINITY : now + timeout;
}

/* events: POLLOUT sends data, POLLIN fills it. */
static int move_all(int fd, short events, uint8_t *data, size_t len, usec_t deadline) {
        while (len > 0) {
                ssize_t n = events == POLLOUT ? send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT)
                                              : recv(fd, data, len, MSG_DONTWAIT);

                if (n == 0 && events == POLLIN)
                        return -ECONNRESET;
                if (n < 0 && errno == EAGAIN) {
                        int r = wait_ready(fd, events, deadline);

                        if (r < 0)
                                return r;
                        continue;
                }
                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n > 0) {
                        data += n;
                        len -= (size_t) n;
                }
        }
        return 0;
}

int frame_send(int fd, uint16_t kind, const ProtobufCMessage *m, usec_t timeout) {
        _cleanup_free_ uint8_t *buf = NULL;
        size_t len;
        int r;

        r = frame_pack(kind, m, &buf, &len);
        if (r < 0)
                return r;
        return move_all(fd, POLLOUT, buf, len, deadline_after(timeout));
}

int frame_receive(int fd, usec_t timeout, struct frame *ret, uint8_t **ret_buf) {
        _cleanup_free_ uint8_t *buf = NULL;
        usec_t deadline = deadline_after(timeout);
        uint8_t head[FRAME_HEADER_SIZE];
        struct frame_header h;
        int r;

        r = move_all(fd, POLLIN, head, sizeof(head), deadline);
        if (r < 0)
                return r;
        r = frame_header_get(head, &h);
        if (r < 0)
                return r;
        buf = malloc(MAX(h.len, 1u));
        if (!buf)
                return -ENOMEM;
        r = move_all(fd, POLLIN, buf, h.len, deadline);
        if (r < 0)
                return r;
        *ret = (struct frame) { .version = h.version, .kind = h.kind, .data = buf, .len = h.len };
        *ret_buf = TAKE_PTR(buf);
        return 0;
}

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

/* --- A descriptor beside the bytes --------------------------------------------------------------------- */

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
