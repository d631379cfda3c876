/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the network set of BPF counts without a peer, as metrics of docs/metrics.md: how long connects
 * took, and packets that were dropped. Which drops somebody should look at.
 */
#include "base.h"
#include "net_figures.h"
#include "probe.h"

/* At most so many places of drops of their own, the rest as "other". */
#define NET_DROP_SERIES 40
void net_drop_samples(const struct net_figures *f, struct sink *s);

/* Packets that were dropped, for all reasons; events that found no room in the tables. */
uint64_t net_dropped(const struct net_figures *f);
uint64_t net_uncounted(const struct net_figures *f);

/* One reason for drops that tells of a shortage or a fault, not of what a firewall or a stranger does. */
struct net_drop_meaning {
        const char *reason, *meaning, *remedy;
};
/* NULL: it is of no interest. */
const struct net_drop_meaning *net_drop_meaning(const struct net_figures *f, const struct net_drop *d);
/* "SOCKET_RCVBUFF", "17"; empty before Linux 5.17. */
void net_drop_reason(const struct net_figures *f, const struct net_drop *d,
                     char ret[static NET_REASON_NAME]);
/* "tcp_v4_rcv", else the address. */
void net_drop_place(const struct net_drop *d, char ret[static NET_SYMBOL]);
