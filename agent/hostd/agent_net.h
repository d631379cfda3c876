/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The network of the runs of this host, out of one dump of its TCP sockets at each tick while a run lives
 * (no run: no dump): samples tpu.net.* of docs/metrics.md, the events tpu.net.link_bad and
 * tpu.net.links_good, GET /v1/net, and what a capture tells of bad links.
 */
#include "agent.h"
#include "flows.h"

struct agent_net {
        struct agent *agent;
        struct flows flows;
        struct net_places *places; /* agent_net_places.c */
        usec_t settled;            /* boot clock: when names and routes were asked last for all */
        usec_t since_real;         /* when the first run that is here was seen */
        size_t bad;                /* links, as told last */
        bool on, failed;           /* failed: it was said */
        char why_not[96];          /* why the sockets cannot be had */
};

int agent_net_start(struct agent *a);
void agent_net_stop(struct agent *a);
/* In the tick: the dump; then its samples, whose counters count from since_real on. */
void agent_net_look(struct agent *a);
void agent_net_sample(const struct agent *a, struct sink *s);
/* Findings FLOW_LINK_CHECK for a capture: as of the last dump. */
void agent_net_tell(const struct agent *a, struct finding_list *list);

/* Whose a connection is, for those who have its addresses and its control group alone. */
struct net_whose {
        char peer[FLOW_NAME_MAX], address[FLOW_NAME_MAX]; /* "worker 5", or the address; the address */
        char nic[IF_NAMESIZE], job[FLOW_NAME_MAX];        /* "": not known, of no run */
        bool is_worker;
};
/* Addresses of 16 bytes, of IPv4 the first 4. Nothing is known (but the address) while no run lives. */
void agent_net_whose(struct agent *a, int family, const uint8_t *local, const uint8_t *peer, uint64_t cgroup,
                     struct net_whose *ret);

/* --- agent_net_route.c: by which NIC a connection leaves -------------------------------------------------
 */

struct net_router;
int net_router_new(struct net_router **ret);
struct net_router *net_router_free(struct net_router *r);
/* The number of the NIC that the kernel's routes choose for what goes from one address to the other (4 or 16
 * bytes). -errno: none, or this host itself. */
int net_router_nic(struct net_router *r, uint8_t family, const uint8_t *from, const uint8_t *to);

/* --- agent_net_places.c: whose a socket is --------------------------------------------------------------
 */

struct net_places;
int net_places_new(struct agent *a, struct flows *f, struct net_places **ret);
struct net_places *net_places_free(struct net_places *p);
/* The runs that live have their places, the others are forgotten. True: there is one. */
bool net_places_take_runs(struct net_places *p);
/* Before a dump: what was looked up may be looked up anew. all: addresses, too. */
void net_places_begin(struct net_places *p, bool all);
/* For flows_take(). */
struct flow_place net_place_of(const struct tcp_socket *s, void *userdata);
/* Fills in name and way of the links that are not settled. */
void net_places_settle(struct net_places *p);
