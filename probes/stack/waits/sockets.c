/* SPDX-License-Identifier: Apache-2.0 */
#include "sockets.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "grow.h"
#include "utf8.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#define STATE_ESTABLISHED 1 /* net/tcp_states.h */
#define STATE_LISTEN      10

void sockets_clear(struct sockets *l) {
        free(l->items);
        *l = (struct sockets){ 0 };
}

/* --- Addresses ---------------------------------------------------------------------------------------- */

void socket_address_text(const void *address, size_t len, char buf[static SOCKET_ADDRESS_MAX]) {
        union {
                struct sockaddr any;
                struct sockaddr_in v4;
                struct sockaddr_in6 v6;
                struct sockaddr_un local;
        } a = { .any.sa_family = AF_UNSPEC };
        size_t path = offsetof(struct sockaddr_un, sun_path);
        char host[INET6_ADDRSTRLEN];

        buf[0] = '\0';
        memcpy(&a, address, MIN(len, sizeof(a.local))); /* the largest of them; the union has a rest */
        if (a.any.sa_family == AF_INET && len >= sizeof(a.v4))
                (void) snprintf(buf, SOCKET_ADDRESS_MAX, "%s:%u",
                                inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof(host)),
                                (unsigned) ntohs(a.v4.sin_port));
        else if (a.any.sa_family == AF_INET6 && len >= sizeof(a.v6) && IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr))
                (void) snprintf(buf, SOCKET_ADDRESS_MAX, "%s:%u",
                                inet_ntop(AF_INET, &a.v6.sin6_addr.s6_addr[12], host, sizeof(host)),
                                (unsigned) ntohs(a.v6.sin6_port));
        else if (a.any.sa_family == AF_INET6 && len >= sizeof(a.v6))
                (void) snprintf(buf, SOCKET_ADDRESS_MAX, "[%s]:%u",
                                inet_ntop(AF_INET6, &a.v6.sin6_addr, host, sizeof(host)),
                                (unsigned) ntohs(a.v6.sin6_port));
        else if (a.any.sa_family == AF_UNIX && len > path)
                (void) snprintf(buf, SOCKET_ADDRESS_MAX, "%s%.*s", a.local.sun_path[0] ? "" : "@",
                                (int) (MIN(len, sizeof(a.local)) - path - !a.local.sun_path[0]),
                                a.local.sun_path + !a.local.sun_path[0]);
        utf8_mend(buf);
}

/* --- One socket --------------------------------------------------------------------------------------- */

static int option_of(int fd, int option) {
        socklen_t len = sizeof(int);
        int v = 0;

        return getsockopt(fd, SOL_SOCKET, option, &v, &len) < 0 ? 0 : v;
}

static uint8_t small(int v) {
        return (uint8_t) (v < 0 ? 0 : MIN(v, (int) UINT8_MAX));
}

/* Times of a socket that never sent or received count from where it was connected: they say nothing. */
static void ask_tcp(int fd, struct captured_socket *s) {
        struct tcp_info i = { 0 }; /* what an older kernel does not tell is 0 */
        socklen_t len = sizeof(i);

        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len) < 0)
                return;
        s->state = i.tcpi_state;
        if (s->state == STATE_LISTEN)
                return; /* there the numbers are those of its backlog */
        s->retransmits = i.tcpi_retransmits;
        s->unacknowledged = i.tcpi_unacked;
        s->unsent = i.tcpi_notsent_bytes;
        s->bytes_acked = i.tcpi_bytes_acked;
        s->bytes_received = i.tcpi_bytes_received;
        if (i.tcpi_data_segs_out > 0)
                s->sent_ms = i.tcpi_last_data_sent;
        if (i.tcpi_data_segs_in > 0)
                s->received_ms = i.tcpi_last_data_recv;
}

static void ask_socket(int fd, struct process_socket *to) {
        struct sockaddr_storage a;
        socklen_t len = sizeof(a);
        int bytes;

        to->s.family = small(option_of(fd, SO_DOMAIN));
        to->s.protocol = small(option_of(fd, SO_PROTOCOL));
        if (getsockname(fd, (struct sockaddr *) &a, &len) == 0)
                socket_address_text(&a, MIN((size_t) len, sizeof(a)), to->local);
        len = sizeof(a);
        if (getpeername(fd, (struct sockaddr *) &a, &len) == 0) {
                socket_address_text(&a, MIN((size_t) len, sizeof(a)), to->remote);
                to->s.state = STATE_ESTABLISHED;
        }
        if (option_of(fd, SO_ACCEPTCONN))
                to->s.state = STATE_LISTEN;
        if (to->s.protocol == IPPROTO_TCP && to->s.family != AF_UNIX)
                ask_tcp(fd, &to->s);
        else if (to->s.state != STATE_LISTEN && ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0)
                to->s.unsent = (uint32_t) bytes;
        if (to->s.state != STATE_LISTEN && ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0)
                to->s.unread = (uint32_t) bytes;
}

/* --- All of a process --------------------------------------------------------------------------------- */

struct reading {
        const struct process *process;
        struct sockets *list;
        int pidfd;
        uint64_t net;
};

/* "net:[4026531840]" */
static uint64_t net_namespace(const struct process *p) {
        char link[64];
        ssize_t n = readlinkat(p->dir_fd, "ns/net", link, sizeof(link) - 1);

        link[MAX(n, 0)] = '\0';
        return startswith(link, "net:[") ? strtoull(link + strlen("net:["), NULL, 10) : 0;
}

static int read_socket(uint32_t fd, void *userdata) {
        struct reading *r = userdata;
        struct sockets *l = r->list;
        struct process_socket *to;
        _cleanup_close_ int copy = -1;
        struct descriptor d;

        if (descriptor_link(r->process, fd, &d) < 0 || d.kind != DESCRIPTOR_SOCKET)
                return 0;
        if (l->n == SOCKETS_MAX) {
                l->cut = true;
                return 1;
        }
        if (grow(&l->items, &l->size, l->n + 1, sizeof(*l->items)) < 0)
                return -ENOMEM;
        to = &l->items[l->n++];
        *to = (struct process_socket){ .s = { .inode = d.number,
                                              .net = r->net,
                                              .fd = fd,
                                              .sent_ms = SOCKET_MS_NONE,
                                              .received_ms = SOCKET_MS_NONE } };
        if (r->pidfd >= 0)
                copy = (int) syscall(SYS_pidfd_getfd, r->pidfd, fd, 0);
        if (copy >= 0)
                ask_socket(copy, to);
        else if (r->pidfd >= 0 && errno != EBADF)
                l->error = -errno;
        return 0;
}

static int compare_inodes(const void *a, const void *b) {
        const struct process_socket *x = a, *y = b;

        return COMPARE(x->s.inode, y->s.inode) ?: COMPARE(x->s.fd, y->s.fd);
}

int sockets_read(const struct process *p, struct sockets *ret) {
        struct reading reading = { .process = p, .list = ret, .net = net_namespace(p) };
        size_t kept = 0;
        int r;

        reading.pidfd = (int) syscall(SYS_pidfd_open, p->pid, 0);
        if (reading.pidfd < 0)
                ret->error = -errno;
        if (process_state(p) == '\0') /* the number may be another process's by now */
                r = -ESRCH;
        else
                r = descriptors_visit(p, read_socket, &reading);
        (void) close_fd(reading.pidfd);
        if (r == -E2BIG)
                ret->cut = true;
        if (ret->n > 0)
                qsort(ret->items, ret->n, sizeof(*ret->items), compare_inodes);
        for (size_t i = 0; i < ret->n; i++)
                if (i == 0 || ret->items[i].s.inode != ret->items[kept - 1].s.inode)
                        ret->items[kept++] = ret->items[i];
        ret->n = kept;
        return r == 1 || r == -E2BIG ? 0 : r;
}
