/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <sys/socket.h>

#include "addresses.h"
#include "route.h"

int router_open(struct router *ret) {
        struct nl_sock *s = nl_socket_alloc();

        if (!s)
                return -ENOMEM;
        errno = 0;
        if (nl_connect(s, NETLINK_ROUTE) < 0) {
                nl_socket_free(s);
                return errno ? -errno : -EIO;
        }
        nl_socket_disable_auto_ack(s);
        ret->socket = s;
        return 0;
}

void router_close(struct router *r) {
        if (r->socket)
                nl_socket_free(r->socket);
        *r = ROUTER_NULL;
}

DEFINE_CLEANUP(struct nl_msg *, nlmsg_free)

static int put_address(struct nl_msg *m, int attribute, const union path_address *a) {
        return a->sa.sa_family == AF_INET
                       ? nla_put(m, attribute, sizeof(a->in.sin_addr), &a->in.sin_addr)
                       : nla_put(m, attribute, sizeof(a->in6.sin6_addr), &a->in6.sin6_addr);
}

static int send_question(struct nl_sock *s, const union path_address *from, const union path_address *to) {
        _cleanup_(nlmsg_freep) struct nl_msg *m = nlmsg_alloc_simple(RTM_GETROUTE, NLM_F_REQUEST);
        uint8_t bits = to->sa.sa_family == AF_INET ? 32 : 128;
        struct rtmsg question = { .rtm_family = (uint8_t) to->sa.sa_family,
                                  .rtm_dst_len = bits,
                                  .rtm_src_len = from ? bits : 0 };

        if (!m || nlmsg_append(m, &question, sizeof(question), NLMSG_ALIGNTO) < 0 ||
            put_address(m, RTA_DST, to) < 0 || (from && put_address(m, RTA_SRC, from) < 0))
                return -ENOMEM;
        errno = 0;
        return nl_send_auto(s, m) < 0 ? (errno ? -errno : -EIO) : 0;
}

int route_parse(void *datagram, size_t len, struct route *ret) {
        struct nlmsghdr *h = datagram;
        struct nlattr *a[RTA_MAX + 1];
        const struct rtmsg *answer;

        if (len > INT_MAX || !nlmsg_ok(h, (int) len))
                return -EBADMSG;
        if (h->nlmsg_type == NLMSG_ERROR && nlmsg_valid_hdr(h, sizeof(struct nlmsgerr))) {
                int error = ((const struct nlmsgerr *) nlmsg_data(h))->error;

                return error < 0 && error > -4096 ? error : -EBADMSG;
        }
        if (h->nlmsg_type != RTM_NEWROUTE || !nlmsg_valid_hdr(h, sizeof(*answer)) ||
            nlmsg_parse(h, sizeof(*answer), a, RTA_MAX, NULL) < 0)
                return -EBADMSG;
        answer = nlmsg_data(h);
        if (answer->rtm_type == RTN_LOCAL) {
                *ret = (struct route){ .local = true };
                return 0;
        }
        if (answer->rtm_type != RTN_UNICAST || !a[RTA_OIF] || nla_len(a[RTA_OIF]) < (int) sizeof(uint32_t))
                return -ENETUNREACH; /* broadcast, blackhole, … */
        *ret = (struct route){ .nic = (int) nla_get_u32(a[RTA_OIF]) };
        return 0;
}

int router_ask(struct router *r, const union path_address *from, const union path_address *to,
               struct route *ret) {
        _cleanup_free_ unsigned char *datagram = NULL;
        struct sockaddr_nl kernel = { 0 };
        int k = send_question(r->socket, from, to);

        if (k < 0)
                return k;
        k = nl_recv(r->socket, &kernel, &datagram, NULL);
        if (k <= 0)
                return -EIO;
        return kernel.nl_pid == 0 ? route_parse(datagram, (size_t) k, ret) : -EBADMSG;
}

int nic_address(const struct address_table *all, int nic, int family, union path_address *ret) {
        for (size_t i = 0; i < all->n; i++)
                if (all->addresses[i].index == nic && all->addresses[i].family == family) {
                        address_fill(ret, (uint8_t) family, all->addresses[i].bytes);
                        return 0;
                }
        return -EADDRNOTAVAIL;
}
