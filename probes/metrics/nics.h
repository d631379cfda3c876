/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Counters of each NIC from /proc/net/dev, and how evenly its queues are used. NICs are the interfaces that
 * have a device; where none has (a container), all but lo.
 */
#include <net/if.h>

#include "look.h"
#include "nic_queues.h"

#define NICS_MAX 32
struct nic_slot {
        char name[IF_NAMESIZE];
        bool hardware, seen;
        struct nic_queues queues;
};
struct nics_state {
        struct source dev;
        struct nic_slot slots[NICS_MAX];
        size_t n;
        struct driver_socket driver;
};
void nics_init(struct nics_state *n, const struct host *h);
void nics_look(struct nics_state *n, const struct look *l);
void nics_close(struct nics_state *n);
