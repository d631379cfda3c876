/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the files of the part "net" share (net_part.h). */
#include "flows.h"
#include "net_part.h"
#include "tcp_watched.h"

struct suspicion;

#define NET_DUMP_MAX ((size_t) 64 * 1024 * 1024) /* nothing of it is kept */

struct net_drop_seen {
        uint32_t reason;
        uint64_t location, packets; /* as of the last look */
        usec_t told;                /* boot clock; 0: not yet */
};

struct net_state {
        struct bus *bus;
        struct flows flows;
        struct net_places *places; /* net_places.c */
        struct net_looks *looks;   /* net_looks.c */
        struct tcp_watched *sockets;
        usec_t settled;            /* boot clock: when names and routes were asked last for all */
        usec_t since_real;         /* when the first run that is here was seen */
        size_t bad;                /* links, as reported last */
        bool on, failed;           /* failed: it was said */
        char why_not[96];          /* why the sockets cannot be had */
        struct net_drop_seen drops[NET_DROPS];
        usec_t drops_looked;       /* boot clock */
};

/* GET /v1/net, in net_api.c. */
int get_net(void *self, const struct http_request *r, struct http_reply *ret);

/* --- Who owes whom: net_debts.c ------------------------------------------------------------------------ */

/* Of a run that is suspected to stall (s), or not any more (NULL): goes to the registry. */
void net_hear_suspicion(struct net_state *n, const char *run, const struct suspicion *s);
/* The record capture/ of this host's slice. */
void net_hear_request(struct net_state *n, const json_t *record);

/* --- This host's own part of a step: net_looks.c ------------------------------------------------------- */

struct net_looks;
int net_looks_new(struct net_state *n, struct net_looks **ret);
struct net_looks *net_looks_free(struct net_looks *k);
/* Behind the tick's dump. */
void net_looks_tick(struct net_looks *k);

/* --- Whose a socket is: net_places.c ------------------------------------------------------------------- */

struct net_places;
int net_places_new(struct bus *b, struct flows *f, struct net_places **ret);
struct net_places *net_places_free(struct net_places *p);
/* The runs that live have their places, the others are forgotten. True: there is one; also, while it is not
 * known, when there was one. */
bool net_places_take_runs(struct net_places *p, bool was);
/* Before a dump: what was looked up may be looked up again. all: addresses, too. */
void net_places_begin(struct net_places *p, bool all);
/* For flows_take(), for flows_take_events(). */
struct flow_place net_place_of(const struct tcp_connection *s, void *userdata);
struct flow_place net_place_of_entry(const struct tcp_connection *s, void *userdata);
bool net_is_loopback(int family, const uint8_t *address);
/* Fills in the peer and the route of the links for which they were not asked yet. */
void net_places_settle(struct net_places *p);
