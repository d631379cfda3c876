/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One entry of the kernel's neighbour table (RTM_GETNEIGH), as it is: nobody is asked for anything. */
#include <linux/neighbour.h>

#include "base.h"
#include "host.h"

struct neighbour {
        uint16_t state; /* NUD_* */
        uint8_t mac[6];
        bool has_mac;
        uint32_t probes; /* that were sent without an answer */
};

/* -ENOENT: it is not in the table, which is no fault: nothing is sent to it; -EOPNOTSUPP: a root other than
 * "/", or a kernel before 5.0. */
int neighbour_read(const struct host *h, int nic, int family, const uint8_t *address, struct neighbour *ret);
struct nl_sock;
/* The same by a socket of rtnetlink that is open already. */
int neighbour_ask(struct nl_sock *s, int nic, int family, const uint8_t *address, struct neighbour *ret);

/* Packets wait for its MAC address, and it was asked more than once. */
bool neighbour_is_silent(const struct neighbour *n);
/* Somebody has written its MAC address down: the kernel never asks. */
bool neighbour_is_fixed(const struct neighbour *n);
