/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where a packet would leave, by the kernel's own answer (RTM_GETROUTE, as "ip route get"). Of this
 * machine: there is no such answer below another root.
 */
#include "lane.h"

struct nl_sock;

struct route {
        int nic; /* interface index */
        bool local; /* the address is this host's own */
};
/* s: of NETLINK_ROUTE (netlink.h). from NULL: as the kernel chooses. -ENETUNREACH, -EHOSTUNREACH: no way
 * there. */
int route_ask(struct nl_sock *s, const union path_address *from, const union path_address *to,
              struct route *ret);

/* The kernel's answer. -errno that it holds, -EBADMSG, or -ENODATA: it is none. Pure. */
int route_parse(const void *datagram, size_t len, struct route *ret);

/* The first address of a NIC that others can reach. -EADDRNOTAVAIL: it has none of that family. */
struct address_table;
int nic_address(const struct address_table *all, int nic, int family, union path_address *ret);
