/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>

#include "dump.h"
#include "io.h"

#define DATAGRAM_MAX 32768 /* of a dump the kernel makes none larger (Linux, net/netlink/af_netlink.c, netlink_dump) */

DEFINE_CLEANUP(struct nl_sock *, nl_socket_free)
DEFINE_CLEANUP(struct nl_msg *, nlmsg_free)

static bool message_fits(const struct nlmsghdr *h, size_t left) {
        return left >= sizeof(*h) && h->nlmsg_len >= sizeof(*h) && h->nlmsg_len <= left;
}

/* --- Parsing ------------------------------------------------------------------------------------------ */

/* Returns 1 at the end of the dump, 0 to go on with what this message says. */
static int check_message(const struct nlmsghdr *h) {
        int r;

        if (h->nlmsg_flags & NLM_F_DUMP_INTR)
                return -EINTR;
        if (h->nlmsg_type == NLMSG_DONE)
                return 1;
        if (h->nlmsg_type != NLMSG_ERROR)
                return 0;
        if (!nlmsg_valid_hdr(h, sizeof(struct nlmsgerr)))
                return -EBADMSG;
        r = ((const struct nlmsgerr *) nlmsg_data(h))->error;
        return r < 0 && r > -4096 ? r : -EBADMSG;
}

/* The messages of len aligned bytes. Returns 1 when the dump ended with the last of them, 0 when more has to follow. */
static int walk(char *data, size_t len, int (*message)(struct nlmsghdr *h, void *userdata), void *userdata) {
        size_t at = 0;

        while (at < len && message_fits((struct nlmsghdr *) (void *) (data + at), len - at)) {
                struct nlmsghdr *h = (struct nlmsghdr *) (void *) (data + at);
                int r = check_message(h);

                at += MIN((size_t) NLMSG_ALIGN(h->nlmsg_len), len - at);
                if (r > 0)
                        return at < len ? -EBADMSG : 1;
                if (r == 0)
                        r = message(h, userdata);
                if (r < 0)
                        return r;
        }
        return at < len ? -EBADMSG : 0;
}

int dump_parse(const void *data, size_t len, int (*message)(struct nlmsghdr *h, void *userdata),
               void *userdata) {
        _cleanup_free_ char *copy = NULL; /* aligned, and libnl's attribute functions want it writable */
        int r;

        if (len == 0)
                return -EBADMSG;
        copy = malloc(len);
        if (!copy)
                return -ENOMEM;
        memcpy(copy, data, len);
        r = walk(copy, len, message, userdata);
        return r > 0 ? 0 : r == 0 ? -EBADMSG : r;
}

/* --- Reading ------------------------------------------------------------------------------------------ */

int dump_read_recorded(const struct host *h, const char *path, size_t max, char **ret, size_t *ret_len) {
        _cleanup_close_ int fd = host_open_file(h, path, O_RDONLY);
        _cleanup_free_ char *buf = NULL;
        ssize_t n;

        if (fd < 0)
                return fd == -ENOENT ? -ENODATA : fd;
        buf = malloc(max + 1);
        if (!buf)
                return -ENOMEM;
        n = io_read_up_to(fd, buf, max + 1);
        if (n < 0)
                return (int) n;
        if ((size_t) n > max)
                return -E2BIG;
        *ret = TAKE_PTR(buf);
        *ret_len = (size_t) n;
        return 0;
}

/* libnl has error numbers of its own; -errno here is what the system call left. */
static int ask(struct nl_sock *s, const struct dump_request *request) {
        _cleanup_(nlmsg_freep) struct nl_msg *m =
                nlmsg_alloc_simple(request->type, NLM_F_REQUEST | NLM_F_DUMP);

        if (!m ||
            nlmsg_append(m, (void *) (uintptr_t) request->head, request->head_size, NLMSG_ALIGNTO) < 0 ||
            (request->skip_statistics && nla_put_u32(m, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS) < 0))
                return -ENOMEM;
        return nl_send_auto(s, m) < 0 ? (errno ? -errno : -EIO) : 0;
}

/* Whether the datagram ends the dump: its last message is NLMSG_DONE or an error. */
static bool ends_dump(const unsigned char *data, size_t len) {
        while (message_fits((const struct nlmsghdr *) (const void *) data, len)) {
                const struct nlmsghdr *h = (const struct nlmsghdr *) (const void *) data;
                size_t step = MIN((size_t) NLMSG_ALIGN(h->nlmsg_len), len);

                if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
                        return true;
                data += step;
                len -= step;
        }
        return len > 0; /* malformed: the parser will say so */
}

/* One datagram of the kernel, and how long it is. */
static int receive(struct nl_sock *s, unsigned char **ret) {
        for (;;) {
                _cleanup_free_ unsigned char *datagram = NULL;
                struct sockaddr_nl from = { 0 };
                int n = nl_recv(s, &from, &datagram, NULL);

                if (n <= 0)
                        return n == 0 ? -EIO : -EAGAIN;
                if (from.nl_pid != 0)
                        continue;
                *ret = TAKE_PTR(datagram);
                return n;
        }
}

static int open_and_ask(const struct dump_request *request, struct nl_sock **ret) {
        _cleanup_(nl_socket_freep) struct nl_sock *s = nl_socket_alloc();
        int r;

        if (!s)
                return -ENOMEM;
        errno = 0;
        if (nl_connect(s, request->protocol) < 0)
                return errno ? -errno : -EIO;
        /* The size of each datagram need not be asked for first. */
        if (nl_socket_set_msg_buf_size(s, DATAGRAM_MAX) < 0)
                return -ENOMEM;
        nl_socket_disable_msg_peek(s);
        r = ask(s, request);
        if (r == 0)
                *ret = TAKE_PTR(s);
        return r;
}

static int receive_all(struct nl_sock *s, size_t max, char **ret, size_t *ret_len) {
        _cleanup_free_ char *dump = NULL;
        size_t n = 0;

        for (;;) {
                _cleanup_free_ unsigned char *datagram = NULL;
                int k = receive(s, &datagram);
                char *grown;

                if (k < 0)
                        return k;
                if (n + (size_t) k > max)
                        return -E2BIG;
                grown = realloc(dump, n + (size_t) k);
                if (!grown)
                        return -ENOMEM;
                dump = grown;
                memcpy(dump + n, datagram, (size_t) k);
                n += (size_t) k;
                if (ends_dump(datagram, (size_t) k))
                        break;
        }
        *ret = TAKE_PTR(dump);
        *ret_len = n;
        return 0;
}

int dump_read(const struct dump_request *request, char **ret, size_t *ret_len) {
        _cleanup_(nl_socket_freep) struct nl_sock *s = NULL;
        int r = open_and_ask(request, &s);

        return r < 0 ? r : receive_all(s, request->max, ret, ret_len);
}

int dump_each(const struct dump_request *request, int (*message)(struct nlmsghdr *h, void *userdata), void *userdata) {
        _cleanup_(nl_socket_freep) struct nl_sock *s = NULL;
        int r = open_and_ask(request, &s);
        size_t n = 0;

        while (r == 0) {
                _cleanup_free_ unsigned char *datagram = NULL;

                r = receive(s, &datagram);
                if (r < 0)
                        return r;
                n += (size_t) r;
                r = n > request->max ? -E2BIG : walk((char *) datagram, (size_t) r, message, userdata);
        }
        return MIN(r, 0);
}
