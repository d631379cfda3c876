/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Features and private flags of NICs, read and written over the kernel's ethtool family of generic netlink
 * (Linux 5.7 has both). With a root other than "/" the answers are read from /netlink/features and
 * /netlink/private-flags of that root: the raw bytes of the kernel's replies, one NIC's after another's.
 *
 * The kernel answers a request before it returns from sendmsg(2), which therefore lasts as long as the
 * driver takes; nothing is waited for after it.
 */
#include "ethtool_bits.h"
#include "host.h"

struct nl_sock;

struct ethtool {
        struct nl_sock *sock; /* NULL: recorded */
        const struct host *host;
        uint16_t family;
        uint32_t monitor; /* number of the multicast group that tells changes; 0: none */
};
#define ETHTOOL_NULL ((struct ethtool) { 0 })

/* -EPROTONOSUPPORT: this kernel has no such family (it is from 5.6 on). h must outlive *ret. */
int ethtool_open(const struct host *h, struct ethtool *ret);
void ethtool_close(struct ethtool *e);
#define _cleanup_ethtool_ _cleanup_(ethtool_close)

/*
 * Fills the named bits of the NIC index. -EOPNOTSUPP: this driver has no private flags; -ENODEV: no such
 * NIC; -ENODATA: nothing is recorded for it; else what the kernel answered.
 */
int ethtool_read(struct ethtool *e, enum ethtool_group g, int index, struct ethtool_bit *bits, size_t n);
/* Asks for one bit to be set or cleared; whether it then is so shows ethtool_read(). -EROFS: recorded. */
int ethtool_set(struct ethtool *e, enum ethtool_group g, int index, const char *name, bool on);

/* Whether the first bytes of a message of the monitor group tell that features or private flags changed. */
#define ETHTOOL_HEAD_SIZE 20
bool ethtool_tells_bits(const void *head, size_t len);
