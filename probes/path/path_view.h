/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What this host's own kernel would do with packets of a program from one address to another: the route
 * that decides (RTM_GETROUTE, as "ip route get … fibmatch"), and what it holds connections to. Beside the
 * packets of the proof, which no route's limit holds back. path_view_say() is pure.
 */
#include "intent.h"
#include "path_address.h"
#include "qdiscs.h"
#include "route_words.h"
#include "texts.h"

struct path_view {
        int error;          /* -errno of the kernel's lookup; 0: there is a route */
        bool matched;       /* route is the one that decides, also the one that rejects */
        struct route route;
        char by[IF_NAMESIZE]; /* of the route; empty: it leads nowhere, or to this host */
        bool local;           /* the kernel keeps the packets for this host */
        char owner[IF_NAMESIZE]; /* local: the NIC that has the address; empty: none has */
        uint32_t mtu; /* of the route, as the kernel counts for connections; 0: the NIC's */
        uint32_t nic_mtu;
        char qdisc[QDISC_WORDS_MAX]; /* of the NIC, that limits; empty: none */
        uint64_t dropped;            /* by qdiscs of the NIC while the path was tried */
        /* of a TCP connection between the two addresses, the one that sent most */
        bool connected;
        uint32_t pmtu, mss;
        uint32_t sent, resent, received, disordered; /* segments */
        /* The next hop, as it was asked when the path was silent. */
        char hop[ADDRESS_TEXT_MAX], hop_mac[MAC_TEXT_MAX];
        bool hop_is_gateway, hop_silent, hop_fixed;
        bool diverted; /* the address is in the subnet of a NIC that the route does not take */
        bool has_own;  /* diverted: that NIC has a route to the same subnet, which comes later */
        bool bent;     /* … that it does take, but by a gateway */
        char subnet[ROUTE_WORDS_MAX]; /* either: the route of that subnet as ip(8) takes it */
};

struct nl_sock;
/* What is asked, and what was read once for all paths. */
struct path_viewer {
        const struct host *host;
        const struct link_table *links;
        const struct address_table *addresses;
        struct nl_sock *kernel; /* NETLINK_ROUTE */
        struct route_table routes;
        bool routes_known;
};
void path_viewer_clear(struct path_viewer *v);

/* Whether the address is in a subnet of nic's own, and then how that subnet's route reads. */
bool path_view_in_subnet(const struct path_viewer *v, const struct link *nic, const union path_address *to,
                         char subnet[static ROUTE_WORDS_MAX]);

/* from NULL: as a program that binds no address. What the kernel does not say is left out. */
void path_view_read(struct path_viewer *v, const struct link *nic, const union path_address *from,
                    const union path_address *to, struct path_view *ret);

/* A connection is there: c is of the two addresses. */
struct tcp_connection;
void path_view_add_connection(struct path_view *v, const struct tcp_connection *c);
bool path_view_is_of(const struct tcp_connection *c, const union path_address *from,
                     const union path_address *to);

/* Of a path that lost small packets: in which direction, as far as this host can know. */
const char *path_view_direction(const struct path_view *v);

/* The path was silent: what the neighbour table says of its next hop. */
void path_view_add_hop(struct path_view *v, const struct host *h, int nic, const union path_address *to);
/* The same in words. As path_view_say(). */
bool path_view_say_hop(const struct path_view *v, const char *nic, struct finding *f);

/* What the qdiscs of nic did between two looks. */
void path_view_add_qdisc(struct path_view *v, int nic, const struct qdisc_table *before,
                         const struct qdisc_table *after);

/* Of a path on which something was lost: whether this host's own qdisc dropped it. As path_view_say(). */
bool path_view_say_dropped(const struct path_view *v, const char *nic, struct finding *f);

/* Whether packets from an address of nic do not go out by nic at all, or are held to less than its MTU:
 * verdict, found, reason and remedy in f, which has check and subject. False: f is as it was. */
bool path_view_say(const struct path_view *v, const char *nic, const union path_address *to,
                   struct finding *f);
