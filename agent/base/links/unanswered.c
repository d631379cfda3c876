/* SPDX-License-Identifier: Apache-2.0 */
#include "unanswered.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "netlink.h"
#include "tcp_connections.h"

#define DUMP_MAX (4 * 1024 * 1024) /* about 12,000 connections */
/* idiag_timer, as in ss(8): data, or a request to connect, is sent again; an idle connection, a closed
 * window is probed */
#define TIMER_REPEAT 1
#define TIMER_IDLE 2
#define TIMER_WINDOW 4
#define SHIFT_MAX 7u
/* Where data of ours may wait for an answer: all but LISTEN and those that wait for the peer alone.
 * TCP_SYN_RECV is the peer's request, which may be anybody's. */
#define STATES                                                                                              \
        (1u << TCP_ESTABLISHED | 1u << TCP_SYN_SENT | 1u << TCP_FIN_WAIT1 | 1u << TCP_CLOSE_WAIT |         \
         1u << TCP_LAST_ACK | 1u << TCP_CLOSING)

void unanswered_table_clear(struct unanswered_table *t) {
        free(t->pairs);
        *t = UNANSWERED_TABLE_NULL;
}

static struct unanswered *pair_of(struct unanswered_table *t, const struct tcp_connection *c) {
        struct unanswered *u;

        for (size_t i = 0; i < t->n; i++)
                if (t->pairs[i].family == c->family &&
                    memcmp(t->pairs[i].local, c->local, sizeof(c->local)) == 0 &&
                    memcmp(t->pairs[i].peer, c->peer, sizeof(c->peer)) == 0)
                        return &t->pairs[i];
        if (t->n == UNANSWERED_MAX)
                return NULL;
        u = &t->pairs[t->n++];
        *u = (struct unanswered) { .family = c->family };
        memcpy(u->local, c->local, sizeof(u->local));
        memcpy(u->peer, c->peer, sizeof(u->peer));
        return u;
}

struct wait {
        unsigned repeats;
        usec_t silence;
};

/* tcpi_retransmits, tcpi_probes and tcpi_backoff go back to 0 with an answer. */
static bool is_unanswered(const struct tcp_connection *c, const struct tcp_info *info, struct wait *ret) {
        unsigned least = UNANSWERED_REPEATS;

        *ret = (struct wait){ .silence = info->tcpi_last_ack_recv * USEC_PER_MSEC };
        if (c->timer == TIMER_REPEAT && c->state == TCP_SYN_SENT) {
                ret->repeats = info->tcpi_retransmits;
                ret->silence = ((UINT64_C(1) << MIN(ret->repeats, SHIFT_MAX)) - 1) * USEC_PER_SEC;
                least = UNANSWERED_REQUESTS; /* nothing was ever received: the kernel tells no time of it */
        } else if (c->timer == TIMER_REPEAT && info->tcpi_unacked > 0)
                ret->repeats = MAX(info->tcpi_retransmits, info->tcpi_backoff);
        else if (c->timer == TIMER_IDLE || c->timer == TIMER_WINDOW)
                ret->repeats = info->tcpi_probes;
        return ret->repeats >= least && ret->silence >= UNANSWERED_SILENCE;
}

static int note_silence(const struct tcp_connection *c, void *userdata) {
        struct unanswered_table *t = userdata;
        struct unanswered *u;
        struct tcp_info info;
        struct wait wait;

        if (!c->info)
                return 0;
        tcp_connection_info(c, &info, sizeof(info));
        u = is_unanswered(c, &info, &wait) ? pair_of(t, c) : NULL;
        if (!u) {
                t->answered++;
                return 0;
        }
        u->connections++;
        u->repeats = MAX(u->repeats, wait.repeats);
        u->silence = MAX(u->silence, wait.silence);
        return 0;
}

int unanswered_parse(const void *data, size_t len, struct unanswered_table *ret) {
        _cleanup_unanswered_ struct unanswered_table t = UNANSWERED_TABLE_NULL;
        int r;

        if (len > DUMP_MAX)
                return -EBADMSG;
        t.pairs = calloc(UNANSWERED_MAX, sizeof(*t.pairs));
        if (!t.pairs)
                return -ENOMEM;
        r = tcp_connections_parse(data, len, note_silence, &t);
        if (r < 0)
                return r;
        *ret = t;
        t = UNANSWERED_TABLE_NULL;
        return 0;
}

int unanswered_read(const struct host *h, struct unanswered_table *ret) {
        const struct tcp_query query = { .states = STATES, .with_info = true, .max = DUMP_MAX };
        _cleanup_unanswered_ struct unanswered_table t = UNANSWERED_TABLE_NULL;
        int r = -EINTR;

        t.pairs = calloc(UNANSWERED_MAX, sizeof(*t.pairs));
        if (!t.pairs)
                return -ENOMEM;
        for (int i = 0; i < NETLINK_TRIES && (r == -EINTR || r == -EAGAIN); i++) {
                t.n = t.answered = 0;
                r = tcp_connections_read(h, &query, note_silence, &t);
        }
        if (r < 0)
                return r;
        *ret = t;
        t = UNANSWERED_TABLE_NULL;
        return 0;
}

int unanswered_tell(const struct unanswered_table *t, struct finding_list *list) {
        int r = 0;

        for (size_t i = 0; i < t->n && r == 0; i++) {
                const struct unanswered *u = &t->pairs[i];
                char local[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN];
                struct finding f;

                if (!inet_ntop(u->family, u->local, local, sizeof(local)) ||
                    !inet_ntop(u->family, u->peer, peer, sizeof(peer)))
                        continue; /* no other family is kept */
                finding_init(&f, UNANSWERED_CHECK, peer);
                f.verdict = VERDICT_WARN;
                finding_set(f.found,
                            "from %s, nothing for %.0f s although data was sent again %u times (%u "
                            "connection%s)",
                            local, (double) u->silence / (double) USEC_PER_SEC, u->repeats, u->connections,
                            u->connections == 1 ? "" : "s");
                r = finding_list_add(list, &f);
        }
        return r;
}

/* --- Datagrams ---------------------------------------------------------------------------------------- */

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

static int note_pair(const struct tcp_connection *c, void *userdata) {
        struct reach_pair pair = { .family = c->family };
        struct list *l = userdata;

        memcpy(pair.local, c->local, sizeof(pair.local));
        memcpy(pair.peer, c->peer, sizeof(pair.peer));
        if (is_loopback(&pair) || memcmp(pair.local, pair.peer, sizeof(pair.local)) == 0 ||
            *l->n == REACH_MAX)
                return 0;
        for (size_t i = 0; i < *l->n; i++)
                if (memcmp(&l->pairs[i], &pair, sizeof(pair)) == 0)
                        return 0;
        l->pairs[(*l->n)++] = pair;
        return 0;
}

int reach_parse(const void *data, size_t len, struct reach_pair pairs[static REACH_MAX], size_t *n) {
        struct list l = { pairs, n };

        return len > DUMP_MAX ? -EBADMSG : tcp_connections_parse(data, len, note_pair, &l);
}

union socket_address {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
};

static socklen_t fill_address(union socket_address *a, int family, const uint8_t *bytes, uint16_t port) {
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
        socklen_t local_size = fill_address(&local, p->family, p->local, 0),
                  peer_size = fill_address(&peer, p->family, p->peer, DISCARD_PORT);

        if (fd < 0 || bind(fd, &local.sa, local_size) < 0 || connect(fd, &peer.sa, peer_size) < 0 ||
            send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
                return -errno;
        return TAKE_FD(fd);
}

int reach_begin(const struct host *h, struct reach **ret) {
        static const struct tcp_query query = { .states = TCP_ESTABLISHED_BIT, .max = DUMP_MAX };
        _cleanup_(reach_freep) struct reach *x = h->real_root ? calloc(1, sizeof(*x)) : NULL;
        int r = -EINTR;

        if (!x)
                return h->real_root ? -ENOMEM : -ENODATA;
        for (size_t i = 0; i < REACH_MAX; i++)
                x->fds[i] = -EBADF;
        for (int i = 0; i < NETLINK_TRIES && (r == -EINTR || r == -EAGAIN); i++) {
                x->n = 0;
                r = tcp_connections_read(h, &query, note_pair, &(struct list){ x->pairs, &x->n });
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
        return error == -ENETDOWN || error == -ENETUNREACH || error == -EHOSTUNREACH ||
               error == -EADDRNOTAVAIL;
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
