/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The addresses at both ends of a path, as text and as bytes, and where a packet to one would leave. */
#include <netinet/in.h>
#include <sys/socket.h>

#include "base.h"

union path_address {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
};

#define ADDRESS_TEXT_MAX 48
/* "10.10.0.13". */
const char *address_text(const union path_address *a, char buf[static ADDRESS_TEXT_MAX]);
socklen_t address_len(const union path_address *a);
/* Without ports. */
bool address_equal(const union path_address *a, const union path_address *b);
/* Of the family's length; family 0: none. */
void address_fill(union path_address *ret, uint8_t family, const uint8_t *bytes);
/* Numeric text, IPv4 or IPv6 (no zone). -EINVAL. */
int address_parse(const char *text, union path_address *ret);

struct nl_sock;

/*
 * Where a packet would leave, by the kernel's own answer (RTM_GETROUTE, as "ip route get"). Of this machine:
 * there is no such answer below another root.
 */
struct path_route {
        int nic; /* interface index */
        bool local; /* the address is this host's own */
        uint32_t mtu; /* that connections there are held to; 0: the NIC's */
};
/* s: of NETLINK_ROUTE (netlink.h). from NULL: as the kernel chooses. -ENETUNREACH, -EHOSTUNREACH: no path
 * there. */
int path_route_ask(struct nl_sock *s, const union path_address *from, const union path_address *to,
              struct path_route *ret);

/* The route of the tables that decides: *ret is as in a dump, with its table, protocol and metrics. */
struct route;
int path_route_match(struct nl_sock *s, const union path_address *from, const union path_address *to,
                     struct route *ret);

/* The kernel's answer. -errno that it holds, -EBADMSG, or -ENODATA: it is none. Pure. */
int path_route_parse(const void *datagram, size_t len, struct path_route *ret);

/* The first address of a NIC that others can reach. -EADDRNOTAVAIL: it has none of that family. */
struct address_table;
int nic_address(const struct address_table *all, int nic, int family, union path_address *ret);
