/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Routes as the kernel tells them over rtnetlink (RTM_GETROUTE), IPv4 and IPv6: those of all tables but
 * local that lead somewhere or say that nothing does (unreachable, blackhole, prohibit, throw), without
 * IPv6's link-local ones and without what a lookup cached. With a root other than
 * "/" they are read from the dump /netlink/routes of that root, else -ENODATA.
 */
#include <linux/rtnetlink.h>

#include "base.h"
#include "host.h"

#define ROUTES_MAX 6144 /* three times what source routing adds at most (SOURCE_MAX) */
#define ROUTE_HOPS_MAX 16

struct route {
        int family; /* AF_INET, AF_INET6 */
        uint8_t dst[16];
        uint8_t dst_len, tos;
        uint8_t type, protocol; /* RTN_UNICAST, RTN_THROW, …; who made it (RTPROT_*) */
        uint8_t scope;          /* RT_SCOPE_* */
        uint32_t table, priority;
        int hops[ROUTE_HOPS_MAX]; /* ifindex of each next hop */
        unsigned n_hops;          /* may be more than ROUTE_HOPS_MAX: the rest is not here */
        bool has_gateway;         /* of the only next hop */
        int gateway_family;
        uint8_t gateway[16];
        bool has_source; /* RTA_PREFSRC */
        uint8_t source[16];
        bool onlink;  /* the gateway need not be in a connected subnet */
        bool special; /* it wraps packets, or is for one source only (IPv6): no more than its destination
                         and its next hops are reported here */
        bool wraps;      /* it wraps packets, and is for every source */
        uint32_t nexthop; /* RTA_NH_ID: the nexthop object that it goes by; 0: none */
        uint32_t metrics[RTAX_MAX + 1], locks; /* numbers by RTAX_*, 0: none; locks: bits 1 << RTAX_* */
        char congestion[16]; /* RTAX_CC_ALGO, by name; empty: none */
        uint32_t rto_min_ms; /* 0: the kernel's own */
        bool rto_min_locked; /* without the lock TCP does not heed it */
        bool expires;        /* it has a lifetime, which replacing it would lose */
        bool ambiguous;      /* another one is at the same place: "replace" could hit either */
};

struct route_table {
        struct route *routes;
        size_t n;
};
#define ROUTE_TABLE_NULL ((struct route_table) { 0 })

/* -ENODATA: this root has no dump; -E2BIG: more than ROUTES_MAX; -EBADMSG: malformed; -EINTR: the table
 * changed under each of our reads. Clear with route_table_clear(). */
int routes_read(const struct host *h, struct route_table *ret);
int routes_parse(const void *data, size_t len, struct route_table *ret);
void route_table_clear(struct route_table *t);
#define _cleanup_routes_ _cleanup_(route_table_clear)

/*
 * The messages of this machine's routes (RTM_NEWROUTE) as the kernel tells them, for who gives one back:
 * message takes each until it returns other than 0, from the first one again when they changed
 * meanwhile. 1: it took one; 0: none; -errno as routes_read().
 */
int routes_each(int (*message)(struct nlmsghdr *h, void *userdata), void *userdata);
/* 1: it is such a route, which is in *ret_route (struct route); 0: another one; -EBADMSG. */
int route_parse_message(struct nlmsghdr *h, void *ret_route);
/* The same of any route, also one of the table local or that a lookup gave; 0: it is of no IP family. */
int route_parse_any(struct nlmsghdr *h, struct route *ret);

/* "default", "default6", "10.0.0.0/24", "fd00::/64". */
#define ROUTE_DST_MAX 64
void route_format_dst(const struct route *r, char buf[static ROUTE_DST_MAX]);
/* A default route: the path to everywhere else, in the main table. */
bool route_is_default(const struct route *r);
