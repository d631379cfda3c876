/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "reach.h"

#include "tcp_connections.h"
#include "netlink.h"
#include "unanswered.h"

#define DUMP_MAX (4 * 1024 * 1024)
#define DISCARD_PORT 9 /* RFC 863; whoever runs it does not answer */

struct reach {
        struct reach_pair pairs[REACH_MAX];
        int fds[REACH_MAX]; /* -errno: nothing could be sent */
        size_t n;
};

struct list {
        struct reach_pair *pairs;
        size_t *n;
};

static bool is_loopback(const struct reach_pair *p) {
        static const uint8_t one[16] = { [15] = 1 };

        return p->family == AF_INET ? p->peer[0] == 127 : memcmp(p->peer, one, sizeof(one)) == 0;
}

static int take_connection(const struct tcp_connection *c, void *userdata) {
        struct reach_pair pair = { .family = c->family };
        struct list *l = userdata;

        memcpy(pair.local, c->local, sizeof(pair.local));
        memcpy(pair.peer, c->peer, sizeof(pair.peer));
        if (is_loopback(&pair) || memcmp(pair.local, pair.peer, sizeof(pair.local)) == 0 || *l->n == REACH_MAX)
                return 0;
        for (size_t i = 0; i < *l->n; i++)
                if (memcmp(&l->pairs[i], &pair, sizeof(pair)) == 0)
                        return 0;
        l->pairs[(*l->n)++] = pair;
        return 0;
}

int reach_parse(const void *data, size_t len, struct reach_pair pairs[static REACH_MAX], size_t *n) {
        struct list l = { pairs, n };

        return len > DUMP_MAX ? -EBADMSG : tcp_connections_parse(data, len, take_connection, &l);
}

union socket_address {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
};

static socklen_t fill(union socket_address *a, int family, const uint8_t *bytes, uint16_t port) {
        *a = (union socket_address){ 0 };
        a->sa.sa_family = (sa_family_t) family;
        if (family == AF_INET) {
                memcpy(&a->in.sin_addr, bytes, 4);
                a->in.sin_port = htons(port);
                return sizeof(a->in);
        }
        memcpy(&a->in6.sin6_addr, bytes, 16);
        a->in6.sin6_port = htons(port);
        return sizeof(a->in6);
}

static int send_one(const struct reach_pair *p) {
        _cleanup_close_ int fd = socket(p->family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        union socket_address local, peer;
        socklen_t local_size = fill(&local, p->family, p->local, 0),
                  peer_size = fill(&peer, p->family, p->peer, DISCARD_PORT);

        if (fd < 0 || bind(fd, &local.sa, local_size) < 0 || connect(fd, &peer.sa, peer_size) < 0 ||
            send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
                return -errno;
        return TAKE_FD(fd);
}

int reach_begin(const struct host *h, struct reach **ret) {
        _cleanup_(reach_freep) struct reach *x = h->real_root ? calloc(1, sizeof(*x)) : NULL;
        int r = -EINTR;

        if (!x)
                return h->real_root ? -ENOMEM : -ENODATA;
        for (size_t i = 0; i < REACH_MAX; i++)
                x->fds[i] = -EBADF;
        for (int i = 0; i < NETLINK_TRIES && (r == -EINTR || r == -EAGAIN); i++) {
                x->n = 0;
                r = tcp_connections_read(h, &(struct tcp_query){ .states = TCP_ESTABLISHED_BIT, .max = DUMP_MAX },
                                         take_connection, &(struct list){ x->pairs, &x->n });
        }
        if (r < 0)
                return r;
        for (size_t i = 0; i < x->n; i++)
                x->fds[i] = send_one(&x->pairs[i]);
        *ret = TAKE_PTR(x);
        return 0;
}

/* Any answer will do: that nobody listens there, or that somebody does. */
static bool has_answered(int fd) {
        char byte;

        return recv(fd, &byte, 1, MSG_DONTWAIT) >= 0 || errno == ECONNREFUSED;
}

/* What keeps this host from sending although it has a connection from there. Other errors say nothing. */
static bool is_cut_off(int error) {
        return error == -ENETDOWN || error == -ENETUNREACH || error == -EHOSTUNREACH || error == -EADDRNOTAVAIL;
}

int reach_tell(const struct reach *x, struct finding_list *list, size_t *ret_answered) {
        size_t answered = 0;
        int r = 0;

        for (size_t i = 0; i < x->n && r == 0; i++) {
                const struct reach_pair *p = &x->pairs[i];
                char local[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN];
                struct finding f;

                if (x->fds[i] < 0 ? !is_cut_off(x->fds[i]) : has_answered(x->fds[i])) {
                        answered += x->fds[i] >= 0;
                        continue;
                }
                if (!inet_ntop(p->family, p->local, local, sizeof(local)) ||
                    !inet_ntop(p->family, p->peer, peer, sizeof(peer)))
                        continue;
                finding_init(&f, UNANSWERED_CHECK, peer);
                f.verdict = VERDICT_WARN;
                finding_set(f.found, "from %s, " REACH_FOUND, local);
                r = finding_list_add(list, &f);
        }
        *ret_answered = answered;
        return r;
}

struct reach *reach_free(struct reach *x) {
        for (size_t i = 0; x && i < x->n; i++)
                if (x->fds[i] >= 0)
                        (void) close_fd(x->fds[i]);
        free(x);
        return NULL;
}
