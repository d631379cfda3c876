/* SPDX-License-Identifier: Apache-2.0 */
#include "path_address.h"

#include <arpa/inet.h>
#include <linux/rtnetlink.h>

#include "addresses.h"
#include "netlink.h"
#include "routes.h"

const char *address_text(const union path_address *a, char buf[static ADDRESS_TEXT_MAX]) {
        const void *bytes = a->sa.sa_family == AF_INET ? (const void *) &a->in.sin_addr : &a->in6.sin6_addr;

        if (!inet_ntop(a->sa.sa_family, bytes, buf, ADDRESS_TEXT_MAX))
                (void) snprintf(buf, ADDRESS_TEXT_MAX, "?");
        return buf;
}

socklen_t address_len(const union path_address *a) {
        return a->sa.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6);
}

bool address_equal(const union path_address *a, const union path_address *b) {
        if (a->sa.sa_family != b->sa.sa_family)
                return false;
        if (a->sa.sa_family == AF_INET)
                return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
        return memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) == 0;
}

void address_fill(union path_address *ret, uint8_t family, const uint8_t *bytes) {
        *ret = (union path_address){ .sa.sa_family = family };
        if (family == AF_INET)
                memcpy(&ret->in.sin_addr, bytes, sizeof(ret->in.sin_addr));
        else if (family == AF_INET6)
                memcpy(&ret->in6.sin6_addr, bytes, sizeof(ret->in6.sin6_addr));
}

int address_parse(const char *text, union path_address *ret) {
        union path_address a = { .in6 = { .sin6_family = AF_INET6 } };

        if (inet_pton(AF_INET6, text, &a.in6.sin6_addr) != 1) {
                a = (union path_address){ .in = { .sin_family = AF_INET } };
                if (inet_pton(AF_INET, text, &a.in.sin_addr) != 1)
                        return -EINVAL;
        }
        *ret = a;
        return 0;
}

/* --- Where a packet leaves ------------------------------------------------------------------------- */

static int put_address_attribute(struct nl_msg *m, int attribute, const union path_address *a) {
        return a->sa.sa_family == AF_INET
                       ? nla_put(m, attribute, sizeof(a->in.sin_addr), &a->in.sin_addr)
                       : nla_put(m, attribute, sizeof(a->in6.sin6_addr), &a->in6.sin6_addr);
}

static int take_any(struct nlmsghdr *h, void *userdata) {
        int r = h->nlmsg_type == RTM_NEWROUTE ? route_parse_any(h, userdata) : -EBADMSG;

        return r == 0 ? -EBADMSG : r;
}

static int take_route(struct nlmsghdr *h, void *userdata) {
        struct route r;
        int k = take_any(h, &r);
        bool local;

        if (k < 0)
                return k;
        local = r.type == RTN_LOCAL;
        if (!local && (r.type != RTN_UNICAST || r.n_hops == 0))
                return -ENETUNREACH; /* broadcast, blackhole, … */
        *(struct path_route *) userdata = (struct path_route){ .local = local,
                                                               .nic = local ? 0 : r.hops[0],
                                                               .mtu = r.metrics[RTAX_MTU] };
        return 1;
}

int path_route_parse(const void *datagram, size_t len, struct path_route *ret) {
        return netlink_find(datagram, len, take_route, ret);
}

static int ask_route(struct nl_sock *s, const union path_address *from, const union path_address *to,
                     unsigned flags, netlink_message_func take, void *ret) {
        uint8_t bits = to->sa.sa_family == AF_INET ? 32 : 128;
        const struct rtmsg question = { .rtm_family = (uint8_t) to->sa.sa_family,
                                        .rtm_dst_len = bits,
                                        .rtm_src_len = from ? bits : 0,
                                        .rtm_flags = flags };
        _cleanup_(nlmsg_freep) struct nl_msg *m =
                netlink_message(RTM_GETROUTE, 0, &question, sizeof(question));

        if (!m || put_address_attribute(m, RTA_DST, to) < 0 ||
            (from && put_address_attribute(m, RTA_SRC, from) < 0))
                return -ENOMEM;
        return netlink_ask(s, m, take, ret);
}

int path_route_ask(struct nl_sock *s, const union path_address *from, const union path_address *to,
                   struct path_route *ret) {
        return ask_route(s, from, to, 0, take_route, ret);
}

int path_route_match(struct nl_sock *s, const union path_address *from, const union path_address *to,
                     struct route *ret) {
        return ask_route(s, from, to, RTM_F_LOOKUP_TABLE | RTM_F_FIB_MATCH, take_any, ret);
}

int nic_address(const struct address_table *all, int nic, int family, union path_address *ret) {
        for (size_t i = 0; i < all->n; i++)
                if (all->addresses[i].index == nic && all->addresses[i].family == family) {
                        address_fill(ret, (uint8_t) family, all->addresses[i].bytes);
                        return 0;
                }
        return -EADDRNOTAVAIL;
}
