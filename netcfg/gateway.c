/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/neighbour.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <poll.h>
#include <sys/socket.h>

#include "dump.h"
#include "gateway.h"
#include "request.h"

#define NEIGHBOURS_MAX (1024 * 1024)
#define VALID (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE)

DEFINE_CLEANUP(struct nl_sock *, nl_socket_free)
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

struct asking {
        const struct route *route;
        uint16_t state; /* NUD_* of the gateway; 0: no entry */
};

/* The state of the gateway, when the message tells it. */
static int take_message(struct nlmsghdr *h, void *userdata) {
        struct asking *q = userdata;
        const struct route *r = q->route;
        struct nlattr *dst;
        struct ndmsg *m;
        int size = r->gateway_family == AF_INET ? 4 : 16;

        if ((h->nlmsg_type != RTM_NEWNEIGH && h->nlmsg_type != RTM_DELNEIGH) ||
            !nlmsg_valid_hdr(h, sizeof(*m)))
                return 0;
        m = nlmsg_data(h);
        dst = nlmsg_find_attr(h, sizeof(*m), NDA_DST);
        if (m->ndm_ifindex != r->hops[0] || m->ndm_family != r->gateway_family || !dst ||
            nla_len(dst) != size || memcmp(nla_data(dst), r->gateway, (size_t) size) != 0)
                return 0;
        q->state = h->nlmsg_type == RTM_NEWNEIGH ? m->ndm_state : NUD_NONE;
        return 0;
}

static int read_state(struct asking *q) {
        const struct ndmsg head = { .ndm_family = (unsigned char) q->route->gateway_family };
        const struct dump_request request = {
                .type = RTM_GETNEIGH, .head = &head, .head_size = sizeof(head), .max = NEIGHBOURS_MAX
        };
        _cleanup_free_ char *dump = NULL;
        size_t len = 0;
        int r = -EINTR;

        for (int i = 0; i < DUMP_TRIES && (r == -EINTR || r == -EAGAIN); i++) {
                free(TAKE_PTR(dump));
                q->state = 0;
                r = dump_read(&request, &dump, &len);
                if (r == 0)
                        r = dump_parse(dump, len, take_message, q);
        }
        return r;
}

/* One who is known is asked at once (PROBE); for one who is not, the kernel is told that he is needed. */
static int ask(const struct asking *q) {
        bool known = q->state & VALID;
        _cleanup_(nlmsg_freep) struct nl_msg *m = nlmsg_alloc_simple(
                RTM_NEWNEIGH, NLM_F_REQUEST | NLM_F_ACK | NLM_F_REPLACE | (known ? 0 : NLM_F_CREATE));
        struct ndmsg head = { .ndm_family = (unsigned char) q->route->gateway_family,
                              .ndm_ifindex = q->route->hops[0],
                              .ndm_state = known ? NUD_PROBE : NUD_NONE,
                              .ndm_flags = known ? 0 : NTF_USE };

        if (!m || nlmsg_append(m, &head, sizeof(head), NLMSG_ALIGNTO) < 0 ||
            nla_put(m, NDA_DST, q->route->gateway_family == AF_INET ? 4 : 16, q->route->gateway) < 0)
                return -ENOMEM;
        return request_do(m);
}

/* Takes the events that wait. -ENOBUFS: some were lost. */
static int take_events(int fd, struct asking *q) {
        _Alignas(struct nlmsghdr) char buf[8192];

        for (;;) {
                ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
                struct nlmsghdr *h = (struct nlmsghdr *) (void *) buf;
                int left = (int) n;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                for (; nlmsg_ok(h, left); h = nlmsg_next(h, &left))
                        (void) take_message(h, q);
        }
}

static int wait_for_answer(const struct clock *clock, int fd, struct asking *q, usec_t wait) {
        usec_t end = clock_boot(clock) + wait;

        for (;;) {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                usec_t now = clock_boot(clock);
                int r;

                if (q->state & NUD_REACHABLE)
                        return 0;
                if (now >= end)
                        return -EHOSTUNREACH;
                if (poll(&p, 1, (int) ((end - now) / USEC_PER_MSEC) + 1) < 0 && errno != EINTR)
                        return -errno;
                r = take_events(fd, q);
                if (r == -ENOBUFS)
                        r = read_state(q);
                if (r < 0)
                        return r;
        }
}

int gateway_probe(const struct clock *clock, const struct route *route, usec_t wait) {
        _cleanup_(nl_socket_freep) struct nl_sock *events = nl_socket_alloc();
        struct asking q = { .route = route };
        int r;

        if (!events)
                return -ENOMEM;
        nl_socket_disable_seq_check(events);
        if (nl_connect(events, NETLINK_ROUTE) < 0 || nl_socket_add_membership(events, RTNLGRP_NEIGH) < 0)
                return -EIO;
        r = read_state(&q);
        if (r < 0)
                return r;
        if (q.state & (NUD_PERMANENT | NUD_NOARP))
                return 0; /* set by hand: no one can be asked */
        r = ask(&q);
        if (r < 0)
                return r;
        q.state = 0; /* what was known before the question counts no more */
        return wait_for_answer(clock, nl_socket_get_fd(events), &q, wait);
}
