/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The network of this host, looked at in the tick: the links of its runs to their peers out of one dump
 * of the TCP sockets while a run lives (no run: no dump), and what the network set of BPF programs
 * counted, where it runs. Samples tpu.net.* of docs/metrics.md; the events tpu.net.link_bad,
 * tpu.net.links_good and tpu.net.packets_dropped; GET /v1/net; and what a capture tells of bad links.
 */
#include "agent.h"
#include "flows.h"

struct net_drop_seen {
        uint32_t reason;
        uint64_t location, packets; /* as of the last look */
        usec_t told;                /* boot clock; 0: not yet */
};

struct agent_net {
        struct bus *bus;
        struct flows flows;
        struct net_places *places; /* agent_net_places.c */
        usec_t settled;            /* boot clock: when names and routes were asked last for all */
        usec_t since_real;         /* when the first run that is here was seen */
        size_t bad;                /* links, as told last */
        bool on, failed;           /* failed: it was said */
        char why_not[96];          /* why the sockets cannot be had */
        struct net_drop_seen drops[NET_DROPS];
        usec_t drops_looked;       /* boot clock */
};

int agent_net_start(struct bus *b);
void agent_net_stop(struct bus *b);
/* In the tick: what both sources have; then its samples. Counters of sockets count from since_real on,
 * those of BPF since the agent started. */
void agent_net_look(struct bus *b);
void agent_net_sample(const struct bus *b, struct sink *sockets, struct sink *bpf);
/* Findings FLOW_LINK_CHECK for a capture: as of the last dump. */
void agent_net_tell(const struct bus *b, struct finding_list *list);

/* --- agent_net_places.c: whose a socket is --------------------------------------------------------------
 */

struct net_places;
int net_places_new(struct bus *b, struct flows *f, struct net_places **ret);
struct net_places *net_places_free(struct net_places *p);
/* The runs that live have their places, the others are forgotten. True: there is one. */
bool net_places_take_runs(struct net_places *p);
/* Before a dump: what was looked up may be looked up anew. all: addresses, too. */
void net_places_begin(struct net_places *p, bool all);
/* For flows_take(), for flows_take_events(). */
struct flow_place net_place_of(const struct tcp_connection *s, void *userdata);
struct flow_place net_place_of_entry(const struct tcp_connection *s, void *userdata);
bool net_is_loopback(int family, const uint8_t *address);
/* Fills in name and way of the links that are not settled. */
void net_places_settle(struct net_places *p);
