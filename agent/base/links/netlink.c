/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink.h"

#include <fcntl.h>
#include <linux/rtnetlink.h>

#include "grow.h"
#include "io.h"

/* Of a dump the kernel makes none larger (Linux, net/netlink/af_netlink.c, netlink_dump). */
#define DATAGRAM_MAX 32768

/* --- Walking ------------------------------------------------------------------------------------------- */

/* How a walk ended that met no error. */
enum {
        WALK_MORE,         /* all messages were passed over */
        WALK_TAKEN,        /* message returned more than 0 */
        WALK_DONE,         /* NLMSG_DONE, and nothing behind it */
        WALK_ACKNOWLEDGED, /* an NLMSG_ERROR that is none, and nothing behind it */
};

static int kind_of(const struct nlmsghdr *h) {
        int r;

        if (h->nlmsg_flags & NLM_F_DUMP_INTR)
                return -EINTR;
        if (h->nlmsg_type == NLMSG_DONE)
                return WALK_DONE;
        if (h->nlmsg_type != NLMSG_ERROR)
                return WALK_MORE;
        if (!nlmsg_valid_hdr(h, sizeof(struct nlmsgerr)))
                return -EBADMSG;
        r = ((const struct nlmsgerr *) nlmsg_data(h))->error;
        return r == 0 ? WALK_ACKNOWLEDGED : r < 0 && r > -4096 ? r : -EBADMSG;
}

/* The messages of len aligned bytes. */
static int walk(char *data, size_t len, netlink_message_func message, void *userdata) {
        size_t at = 0;

        while (at < len) {
                struct nlmsghdr *h = (struct nlmsghdr *) (void *) (data + at);
                int r;

                if (len - at < sizeof(*h) || h->nlmsg_len < sizeof(*h) || h->nlmsg_len > len - at)
                        return -EBADMSG;
                at += MIN((size_t) NLMSG_ALIGN(h->nlmsg_len), len - at);
                r = kind_of(h);
                if (r > 0)
                        return at < len ? -EBADMSG : r;
                if (r == 0 && message)
                        r = message(h, userdata);
                if (r != 0)
                        return r < 0 ? r : WALK_TAKEN;
        }
        return WALK_MORE;
}

/* Aligned, and writable, as libnl's attribute functions want it. */
static int walk_copy(const void *data, size_t len, netlink_message_func message, void *userdata) {
        _cleanup_free_ char *copy = malloc(MAX(len, (size_t) 1));

        if (!copy)
                return -ENOMEM;
        if (len > 0)
                memcpy(copy, data, len);
        return walk(copy, len, message, userdata);
}

/* --- Questions ----------------------------------------------------------------------------------------- */

/* libnl has error numbers of its own; -errno here is what the system call left. */
static int errno_or_eio(void) {
        return errno ? -errno : -EIO;
}

int netlink_open(int protocol, struct nl_sock **ret) {
        _cleanup_(nl_socket_freep) struct nl_sock *s = nl_socket_alloc();

        if (!s)
                return -ENOMEM;
        errno = 0;
        if (nl_connect(s, protocol) < 0)
                return errno_or_eio();
        /* The size of each datagram need not be asked for first. */
        if (nl_socket_set_msg_buf_size(s, DATAGRAM_MAX) < 0)
                return -ENOMEM;
        nl_socket_disable_msg_peek(s);
        nl_socket_disable_auto_ack(s);
        *ret = TAKE_PTR(s);
        return 0;
}

struct nl_msg *netlink_message(int type, int flags, const void *head, size_t size) {
        _cleanup_(nlmsg_freep) struct nl_msg *m = nlmsg_alloc_simple(type, NLM_F_REQUEST | flags);

        if (!m || nlmsg_append(m, (void *) (uintptr_t) head, size, NLMSG_ALIGNTO) < 0)
                return NULL;
        return TAKE_PTR(m);
}

static int send_message(struct nl_sock *s, struct nl_msg *m) {
        errno = 0;
        return nl_send_auto(s, m) < 0 ? errno_or_eio() : 0;
}

/* One datagram of the kernel, and how long it is. */
static int receive_message(struct nl_sock *s, unsigned char **ret) {
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

int netlink_ask(struct nl_sock *s, struct nl_msg *m, netlink_message_func message, void *userdata) {
        _cleanup_free_ unsigned char *datagram = NULL;
        int r = send_message(s, m);

        if (r == 0)
                r = receive_message(s, &datagram);
        if (r < 0)
                return r == -EAGAIN ? -EIO : r;
        r = walk((char *) datagram, (size_t) r, message, userdata);
        return r < 0 ? r : r == WALK_TAKEN ? 0 : -ENODATA;
}

int netlink_do(struct nl_msg *m) {
        _cleanup_(nl_socket_freep) struct nl_sock *s = NULL;
        int r = netlink_open(NETLINK_ROUTE, &s);

        if (r == 0)
                r = netlink_ask(s, m, NULL, NULL);
        return r == -ENODATA ? 0 : r;
}

int netlink_find(const void *data, size_t len, netlink_message_func message, void *userdata) {
        int r = walk_copy(data, len, message, userdata);

        return r < 0 ? r : r == WALK_TAKEN ? 0 : -ENODATA;
}

/* --- Dumps --------------------------------------------------------------------------------------------- */

static int request_dump(struct nl_sock *s, const struct dump_request *request) {
        _cleanup_(nlmsg_freep) struct nl_msg *m =
                netlink_message(request->type, NLM_F_DUMP, request->head, request->head_size);

        if (!m || (request->skip_statistics && nla_put_u32(m, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS) < 0))
                return -ENOMEM;
        return send_message(s, m);
}

int dump_each(const struct dump_request *request, netlink_message_func message, void *userdata) {
        _cleanup_(nl_socket_freep) struct nl_sock *s = NULL;
        int r = netlink_open(request->protocol, &s);
        size_t n = 0;

        if (r == 0)
                r = request_dump(s, request);
        while (r == WALK_MORE) {
                _cleanup_free_ unsigned char *datagram = NULL;

                r = receive_message(s, &datagram);
                if (r < 0)
                        return r;
                n += (size_t) r;
                r = n > request->max ? -E2BIG : walk((char *) datagram, (size_t) r, message, userdata);
        }
        return r == WALK_ACKNOWLEDGED ? -EBADMSG : r == WALK_DONE ? 0 : r;
}

int dump_parse(const void *data, size_t len, netlink_message_func message, void *userdata) {
        int r = walk_copy(data, len, message, userdata);

        return r < 0 ? r : r == WALK_DONE ? 0 : r == WALK_TAKEN ? 1 : -EBADMSG;
}

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

/* --- Tables -------------------------------------------------------------------------------------------- */

struct filling {
        const struct dump_table *table;
        char *items;
        size_t n, size;
};

static int take_item(struct nlmsghdr *h, void *userdata) {
        struct filling *f = userdata;
        int r;

        if (h->nlmsg_type != f->table->answer)
                return -EBADMSG;
        r = grow(&f->items, &f->size, f->n + 1, f->table->item_size);
        if (r == 0)
                r = f->table->parse(h, f->items + f->n * f->table->item_size);
        if (r <= 0)
                return r;
        return f->n++ == f->table->items_max ? -E2BIG : 0;
}

static int give(struct filling *f, int r, void *ret_items, size_t *ret_n) {
        if (r < 0) {
                free(f->items);
                return r;
        }
        *(void **) ret_items = f->items;
        *ret_n = f->n;
        return 0;
}

int dump_table_parse(const void *data, size_t len, const struct dump_table *t, void *ret_items,
                     size_t *ret_n) {
        struct filling f = { .table = t };
        int r = len > t->request.max ? -EBADMSG : dump_parse(data, len, take_item, &f);

        return give(&f, r, ret_items, ret_n);
}

int dump_table_read(const struct host *h, const struct dump_table *t, void *ret_items, size_t *ret_n) {
        _cleanup_free_ char *recorded = NULL;
        struct filling f = { .table = t };
        size_t len = 0;
        int r = -EINTR;

        if (!h->real_root) {
                r = dump_read_recorded(h, t->recorded, t->request.max, &recorded, &len);
                return r < 0 ? r : dump_table_parse(recorded, len, t, ret_items, ret_n);
        }
        for (int i = 0; i < NETLINK_TRIES && (r == -EINTR || r == -EAGAIN); i++) {
                f.n = 0;
                r = dump_each(&t->request, take_item, &f);
        }
        return give(&f, r, ret_items, ret_n);
}
