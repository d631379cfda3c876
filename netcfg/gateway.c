/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway.h"

#include <poll.h>
#include <sys/socket.h>

#include "neighbour.h"
#include "netlink.h"

#define VALID (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE)

static bool only_by(const struct route_table *t, const struct route *r) {
        for (size_t i = 0; i < t->n; i++) {
                const struct route *other = &t->routes[i];

                if (route_is_default(other) && other->family == r->family &&
                    (other->n_hops != 1 || other->hops[0] != r->hops[0]))
                        return false;
        }
        return true;
}

const struct route *gateway_of(const struct route_table *t, int index) {
        const struct route *found = NULL;

        for (size_t i = 0; i < t->n; i++) {
                const struct route *r = &t->routes[i];

                if (!route_is_default(r) || !r->has_gateway || r->n_hops != 1 || r->hops[0] != index ||
                    !only_by(t, r))
                        continue;
                if (!found || (found->family != AF_INET && r->family == AF_INET))
                        found = r;
        }
        return found;
}

/* *ret: NUD_* of the gateway; 0: the kernel has no entry. */
static int read_state(struct nl_sock *s, const struct route *r, uint16_t *ret) {
        struct neighbour n = { .state = NUD_NONE };
        int k = neighbour_ask(s, r->hops[0], r->gateway_family, r->gateway, &n);

        if (k < 0 && k != -ENOENT)
                return k;
        *ret = n.state;
        return 0;
}

/* A known neighbour is probed at once (PROBE). For an unknown one the kernel learns that it is needed. */
static int ask_gateway(const struct route *r, bool known) {
        const struct ndmsg head = { .ndm_family = (unsigned char) r->gateway_family,
                                    .ndm_ifindex = r->hops[0],
                                    .ndm_state = known ? NUD_PROBE : NUD_NONE,
                                    .ndm_flags = known ? 0 : NTF_USE };
        _cleanup_(nlmsg_freep) struct nl_msg *m =
                netlink_message(RTM_NEWNEIGH, NLM_F_ACK | NLM_F_REPLACE | (known ? 0 : NLM_F_CREATE), &head,
                                sizeof(head));

        if (!m || nla_put(m, NDA_DST, r->gateway_family == AF_INET ? 4 : 16, r->gateway) < 0)
                return -ENOMEM;
        return netlink_do(m);
}

/* Waits for anything to change with any neighbour; how the gateway then is, is asked. */
static int wait_for_change(int fd, usec_t wait) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        char byte;

        if (poll(&p, 1, (int) (wait / USEC_PER_MSEC) + 1) < 0 && errno != EINTR)
                return -errno;
        while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) >= 0 || errno == EINTR ||
               errno == ENOBUFS)
                ;
        return errno == EAGAIN ? 0 : -errno;
}

int gateway_probe(const struct clock *clock, const struct route *route, usec_t wait) {
        _cleanup_(nl_socket_freep) struct nl_sock *events = NULL, *s = NULL;
        usec_t now = clock_boot(clock), end = now + wait;
        uint16_t state = NUD_NONE;
        int r = netlink_open(NETLINK_ROUTE, &events);

        if (r == 0)
                r = netlink_open(NETLINK_ROUTE, &s);
        if (r == 0 && nl_socket_add_membership(events, RTNLGRP_NEIGH) < 0)
                r = -EIO;
        if (r == 0)
                r = read_state(s, route, &state);
        if (r < 0 || (state & (NUD_PERMANENT | NUD_NOARP)))
                return r; /* set by hand: no one can be asked */
        r = ask_gateway(route, state & VALID);
        for (; r == 0; now = clock_boot(clock)) {
                r = read_state(s, route, &state);
                if (r < 0 || (state & NUD_REACHABLE))
                        return r;
                r = now < end ? wait_for_change(nl_socket_get_fd(events), end - now) : -EHOSTUNREACH;
        }
        return r;
}

void gateways_keep_asked(const struct host *h) {
        _cleanup_routes_ struct route_table t = ROUTE_TABLE_NULL;
        _cleanup_(nl_socket_freep) struct nl_sock *s = NULL;

        if (!h->real_root || routes_read(h, &t) < 0 || netlink_open(NETLINK_ROUTE, &s) < 0)
                return;
        for (size_t i = 0; i < t.n; i++) {
                const struct route *r = &t.routes[i];
                uint16_t state;

                if (route_is_default(r) && r->has_gateway && r->n_hops == 1 &&
                    read_state(s, r, &state) == 0 &&
                    (state == NUD_NONE || (state & (NUD_STALE | NUD_FAILED))))
                        (void) ask_gateway(r, state & VALID); /* asked again in half a minute */
        }
}
