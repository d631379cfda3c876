/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Counters of each NIC from /proc/net/dev. NICs are the interfaces that have a device; where none has (a
 * container), all but lo.
 *
 * And the network stack above them: the receive path (/proc/net/softnet_stat), TCP and UDP (/proc/net/snmp,
 * /proc/net/netstat), connection tracking (nf_conntrack, where it is loaded).
 */
#include <net/if.h>

#include "source.h"

#define NICS_MAX 32
struct nic_slot {
        char name[IF_NAMESIZE];
        bool hardware, seen;
};
struct nics_state {
        struct nic_slot slots[NICS_MAX];
        size_t n;
        int64_t bytes; /* received and sent by all NICs together, as of the last look; -1: not known */
};
void nics_init(struct nics_state *n);
void nics_look(struct nics_state *n, const struct metrics_look *l);
/* Only bytes, anew. */
void nics_look_at_bytes(struct nics_state *n, const struct metrics_look *l);

void network_look(const struct metrics_look *l);
