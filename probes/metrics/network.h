/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The network stack above the NICs: the receive path (/proc/net/softnet_stat), TCP and UDP (/proc/net/snmp,
 * /proc/net/netstat), connection tracking (nf_conntrack, where it is loaded).
 */
#include "look.h"

struct network_state {
        struct source softnet, snmp, netstat, entries, limit, conntrack;
};
#define NETWORK_STATE_NULL                                                                                  \
        ((struct network_state){ SOURCE_NULL, SOURCE_NULL, SOURCE_NULL, SOURCE_NULL, SOURCE_NULL,           \
                                 SOURCE_NULL })
void network_look(struct network_state *n, const struct look *l);
void network_close(struct network_state *n);
