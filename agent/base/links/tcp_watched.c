/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp_watched.h"

#include <linux/netlink.h>

#include "netlink.h"

/* What is needed to ask for one. */
struct watched {
        uint64_t cookie;
        uint32_t interface;
        uint16_t local_port, peer_port;
        uint8_t family, local[16], peer[16];
};
struct tcp_watched {
        struct nl_sock *kernel; /* NULL: not opened yet */
        struct watched list[TCP_WATCHED_MAX];
        size_t n;
        bool whole;      /* list has all of them: none was closed, there was room for all */
        uint64_t number; /* of TCP sockets, before the last dump */
        usec_t dumped;
};

int tcp_watched_new(struct tcp_watched **ret) {
        struct tcp_watched *w = calloc(1, sizeof(*w));

        if (!w)
                return -ENOMEM;
        *ret = w;
        return 0;
}

struct tcp_watched *tcp_watched_free(struct tcp_watched *w) {
        if (w && w->kernel)
                nl_socket_free(w->kernel);
        free(w);
        return NULL;
}

void tcp_watched_forget(struct tcp_watched *w) {
        w->whole = false;
}

/* --- How many there are ------------------------------------------------------------------------------- */

static int add_number(const struct host *h, const char *path, const char *what, uint64_t *number) {
        char text[1024];
        const char *at;
        unsigned inuse;
        int r = host_read(h, path, text, sizeof(text), NULL);

        if (r < 0)
                return r;
        at = strstr(text, what);
        if (!at || sscanf(at + strlen(what), "%u", &inuse) != 1)
                return -EBADMSG;
        *number += inuse;
        return 0;
}

/* Those that wait for their end (TIME-WAIT) are not among them. A kernel without IPv6 has one file. */
static int count_sockets(const struct host *h, uint64_t *ret) {
        uint64_t number = 0;
        int r = add_number(h, "/proc/net/sockstat", "TCP: inuse ", &number);

        if (r == 0)
                r = add_number(h, "/proc/net/sockstat6", "TCP6: inuse ", &number);
        if (r < 0 && r != -ENOENT)
                return r;
        *ret = number;
        return 0;
}

/* --- Reading ------------------------------------------------------------------------------------------ */

struct reading {
        struct tcp_watched *watched;
        const struct tcp_query *query;
        tcp_connection_func take;
        void *userdata;
        bool closed;
};

static int take_of_dump(const struct tcp_connection *c, void *userdata) {
        struct reading *x = userdata;
        struct tcp_watched *w = x->watched;
        int r = x->take(c, x->userdata);

        if (r <= 0)
                return r;
        if (w->n == TCP_WATCHED_MAX) {
                w->whole = false;
                return 0;
        }
        w->list[w->n] = (struct watched){ .cookie = c->cookie,
                                          .interface = c->interface,
                                          .local_port = c->local_port,
                                          .peer_port = c->peer_port,
                                          .family = (uint8_t) c->family };
        memcpy(w->list[w->n].local, c->local, sizeof(c->local));
        memcpy(w->list[w->n].peer, c->peer, sizeof(c->peer));
        w->n++;
        return 0;
}

static int dump(struct reading *x, const struct host *h, uint64_t number, usec_t now) {
        struct tcp_watched *w = x->watched;
        int r;

        w->n = 0;
        w->whole = true;
        w->number = number;
        w->dumped = now;
        r = tcp_connections_read(h, x->query, take_of_dump, x);
        w->whole &= r == 0;
        return r < 0 ? r : 1;
}

static int take_of_one(const struct tcp_connection *c, void *userdata) {
        struct reading *x = userdata;
        int r = 0;

        if (x->query->states >> c->state & 1)
                r = x->take(c, x->userdata);
        else
                x->closed = true;
        return MIN(r, 0);
}

static int ask_each(struct reading *x) {
        struct tcp_watched *w = x->watched;
        int r = w->kernel ? 0 : netlink_open(NETLINK_SOCK_DIAG, &w->kernel);

        for (size_t i = 0; i < w->n && r == 0; i++) {
                const struct watched *one = &w->list[i];
                struct tcp_connection c = { .cookie = one->cookie,
                                            .interface = one->interface,
                                            .local_port = one->local_port,
                                            .peer_port = one->peer_port,
                                            .family = one->family };

                memcpy(c.local, one->local, sizeof(c.local));
                memcpy(c.peer, one->peer, sizeof(c.peer));
                r = tcp_connection_ask(w->kernel, &c, x->query, take_of_one, x);
                if (r == -ENOENT || r == -ESTALE) {
                        x->closed = true;
                        r = 0;
                }
        }
        w->whole = r == 0 && !x->closed;
        return r;
}

int tcp_watched_read(struct tcp_watched *w, const struct host *h, const struct tcp_query *query, usec_t now,
                     tcp_connection_func take, void *userdata) {
        struct reading x = { .watched = w, .query = query, .take = take, .userdata = userdata };
        uint64_t number = 0;
        bool counted = h->real_root && count_sockets(h, &number) == 0;

        if (w->whole && counted && number == w->number && now - w->dumped < TCP_WATCHED_DUMP_AGAIN)
                return ask_each(&x);
        return dump(&x, h, number, now);
}
