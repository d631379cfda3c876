/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include "tcp_connections.h"

#include "netlink.h"

struct taker {
        tcp_connection_func take;
        void *userdata;
};

void tcp_connection_info(const struct tcp_connection *c, void *ret, size_t size) {
        size_t told = MIN(size, c->info_size);

        memcpy(ret, c->info, told);
        memset((char *) ret + told, 0, size - told);
}

void tcp_connection_unmap(struct tcp_connection *c) {
        static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff }; /* ::ffff:0:0/96, RFC 4291 2.5.5.2 */

        if (c->family != AF_INET6 || memcmp(c->peer, mapped, sizeof(mapped)) != 0 ||
            memcmp(c->local, mapped, sizeof(mapped)) != 0)
                return;
        c->family = AF_INET;
        memmove(c->local, c->local + sizeof(mapped), 4);
        memmove(c->peer, c->peer + sizeof(mapped), 4);
        memset(c->local + 4, 0, sizeof(mapped));
        memset(c->peer + 4, 0, sizeof(mapped));
}

static void fill_connection(struct tcp_connection *c, const struct inet_diag_msg *m,
                            struct nlattr *a[static INET_DIAG_MAX + 1]) {
        size_t size = m->idiag_family == AF_INET ? 4 : 16;

        c->family = m->idiag_family;
        memcpy(c->local, m->id.idiag_src, size);
        memcpy(c->peer, m->id.idiag_dst, size);
        tcp_connection_unmap(c);
        c->local_port = ntohs(m->id.idiag_sport);
        c->peer_port = ntohs(m->id.idiag_dport);
        c->state = m->idiag_state;
        c->timer = m->idiag_timer;
        c->interface = m->id.idiag_if;
        c->unread = m->idiag_rqueue;
        c->unsent = m->idiag_wqueue;
        c->cookie = (uint64_t) m->id.idiag_cookie[1] << 32 | m->id.idiag_cookie[0];
        if (a[INET_DIAG_CGROUP_ID] && nla_len(a[INET_DIAG_CGROUP_ID]) == sizeof(c->cgroup))
                c->cgroup = nla_get_u64(a[INET_DIAG_CGROUP_ID]);
        if (a[INET_DIAG_INFO]) {
                c->info = nla_data(a[INET_DIAG_INFO]);
                c->info_size = (size_t) nla_len(a[INET_DIAG_INFO]);
        }
        if (a[INET_DIAG_SKMEMINFO]) {
                c->memory = nla_data(a[INET_DIAG_SKMEMINFO]); /* aligned as attributes are: to 4 bytes */
                c->n_memory = (size_t) nla_len(a[INET_DIAG_SKMEMINFO]) / sizeof(*c->memory);
        }
}

static int take_message(struct nlmsghdr *h, void *userdata) {
        struct nlattr *a[INET_DIAG_MAX + 1];
        const struct taker *t = userdata;
        struct tcp_connection c = { 0 };
        const struct inet_diag_msg *m;

        if ((h->nlmsg_type != SOCK_DIAG_BY_FAMILY && h->nlmsg_type != TCPDIAG_GETSOCK) ||
            !nlmsg_valid_hdr(h, sizeof(*m)) ||
            nlmsg_parse(h, sizeof(*m), a, INET_DIAG_MAX, NULL) < 0)
                return -EBADMSG;
        m = nlmsg_data(h);
        if (m->idiag_family != AF_INET && m->idiag_family != AF_INET6)
                return 0;
        fill_connection(&c, m, a);
        return t->take(&c, t->userdata);
}

int tcp_connections_parse(const void *data, size_t len, tcp_connection_func take, void *userdata) {
        struct taker t = { take, userdata };

        return dump_parse(data, len, take_message, &t);
}

static uint8_t extensions_of(const struct tcp_query *q) {
        return (uint8_t) ((q->with_info ? 1 << (INET_DIAG_INFO - 1) : 0) |
                          (q->with_memory ? 1 << (INET_DIAG_SKMEMINFO - 1) : 0));
}

static int read_recorded(const struct host *h, const struct tcp_query *query, tcp_connection_func take,
                         void *userdata) {
        _cleanup_free_ char *dump = NULL;
        size_t len = 0;
        int r = dump_read_recorded(h, TCP_CONNECTIONS_DUMP, query->max, &dump, &len);

        return r < 0 ? r : tcp_connections_parse(dump, len, take, userdata);
}

int tcp_connections_read(const struct host *h, const struct tcp_query *query, tcp_connection_func take,
                         void *userdata) {
        const struct inet_diag_req head = { .idiag_ext = extensions_of(query),
                                            .idiag_states = query->states };
        const struct dump_request request = { .protocol = NETLINK_SOCK_DIAG,
                                              .type = TCPDIAG_GETSOCK,
                                              .head = &head,
                                              .head_size = sizeof(head),
                                              .max = query->max };
        struct taker t = { take, userdata };

        if (!h->real_root)
                return read_recorded(h, query, take, userdata);
        return dump_each(&request, take_message, &t);
}

static int take_answer(struct nlmsghdr *h, void *userdata) {
        int r = take_message(h, userdata);

        return r < 0 ? r : 1; /* the one there is */
}

int tcp_connection_ask(struct nl_sock *kernel, const struct tcp_connection *c,
                       const struct tcp_query *query, tcp_connection_func take, void *userdata) {
        struct inet_diag_req_v2 head = { .sdiag_family = (uint8_t) c->family,
                                         .sdiag_protocol = IPPROTO_TCP,
                                         .idiag_ext = extensions_of(query),
                                         .idiag_states = TCP_ESTABLISHED_BIT,
                                         .id = { .idiag_sport = htons(c->local_port),
                                                 .idiag_dport = htons(c->peer_port),
                                                 .idiag_if = c->interface,
                                                 .idiag_cookie = { (uint32_t) c->cookie,
                                                                   (uint32_t) (c->cookie >> 32) } } };
        struct taker t = { take, userdata };
        struct nl_msg *m;
        int r;

        memcpy(head.id.idiag_src, c->local, sizeof(head.id.idiag_src));
        memcpy(head.id.idiag_dst, c->peer, sizeof(head.id.idiag_dst));
        m = netlink_message(SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, &head, sizeof(head));
        if (!m)
                return -ENOMEM;
        r = netlink_ask(kernel, m, take_answer, &t);
        nlmsg_free(m);
        return r;
}
