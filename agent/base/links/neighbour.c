/* SPDX-License-Identifier: Apache-2.0 */
#include "neighbour.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "netlink.h"

static const struct nla_policy neighbour_policy[NDA_MAX + 1] = { [NDA_PROBES] = { .type = NLA_U32 } };

static int take_neighbour(struct nlmsghdr *h, void *userdata) {
        struct nlattr *a[NDA_MAX + 1];
        struct neighbour *ret = userdata;
        const struct ndmsg *m;

        if (h->nlmsg_type != RTM_NEWNEIGH || !nlmsg_valid_hdr(h, sizeof(*m)) ||
            nlmsg_parse(h, sizeof(*m), a, NDA_MAX, neighbour_policy) < 0)
                return -EBADMSG;
        m = nlmsg_data(h);
        *ret = (struct neighbour){ .state = m->ndm_state,
                                   .has_mac = a[NDA_LLADDR] && nla_len(a[NDA_LLADDR]) == 6,
                                   .probes = a[NDA_PROBES] ? nla_get_u32(a[NDA_PROBES]) : 0 };
        if (ret->has_mac)
                memcpy(ret->mac, nla_data(a[NDA_LLADDR]), sizeof(ret->mac));
        return 1;
}

int neighbour_ask(struct nl_sock *s, int nic, int family, const uint8_t *address, struct neighbour *ret) {
        const struct ndmsg question = { .ndm_family = (uint8_t) family, .ndm_ifindex = nic };
        _cleanup_(nlmsg_freep) struct nl_msg *m =
                netlink_message(RTM_GETNEIGH, 0, &question, sizeof(question));

        if (!m || nla_put(m, NDA_DST, family == AF_INET ? 4 : 16, address) < 0)
                return -ENOMEM;
        return netlink_ask(s, m, take_neighbour, ret);
}

int neighbour_read(const struct host *h, int nic, int family, const uint8_t *address,
                   struct neighbour *ret) {
        _cleanup_(nl_socket_freep) struct nl_sock *s = NULL;
        int r = h->real_root ? netlink_open(NETLINK_ROUTE, &s) : -EOPNOTSUPP;

        return r < 0 ? r : neighbour_ask(s, nic, family, address, ret);
}

bool neighbour_is_silent(const struct neighbour *n) {
        return n->state == NUD_FAILED || (n->state == NUD_INCOMPLETE && n->probes > 1);
}

bool neighbour_is_fixed(const struct neighbour *n) {
        return n->state == NUD_PERMANENT && n->has_mac;
}
