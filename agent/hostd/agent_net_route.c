/* SPDX-License-Identifier: Apache-2.0 */
/* By which NIC the kernel's routes have a connection leave; apart, because two rooms have an address of
 * their own. */
#include "agent_net.h"

#include "route.h"

struct net_router {
        struct router router;
};

int net_router_new(struct net_router **ret) {
        struct net_router *r = calloc(1, sizeof(*r));
        int k = r ? router_open(&r->router) : -ENOMEM;

        if (k < 0)
                free(r);
        else
                *ret = r;
        return k;
}

struct net_router *net_router_free(struct net_router *r) {
        if (r)
                router_close(&r->router);
        free(r);
        return NULL;
}

static void fill(union address *a, uint8_t family, const uint8_t *bytes) {
        *a = (union address){ .sa.sa_family = family };
        if (family == AF_INET)
                memcpy(&a->in.sin_addr, bytes, 4);
        else
                memcpy(&a->in6.sin6_addr, bytes, 16);
}

int net_router_nic(struct net_router *r, uint8_t family, const uint8_t *from, const uint8_t *to) {
        union address local, peer;
        struct route route;
        int k;

        fill(&local, family, from);
        fill(&peer, family, to);
        k = router_ask(&r->router, &local, &peer, &route);
        return k < 0 ? k : route.local ? -ENETUNREACH : route.nic;
}
