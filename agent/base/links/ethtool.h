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
#include "base.h"
#include "host.h"

struct nl_sock;

#define ETHTOOL_NAME_MAX 32 /* ETH_GSTRING_LEN, with the 0 */

enum ethtool_group {
        ETHTOOL_FEATURES,
        ETHTOOL_PRIVATE_FLAGS,
        _ETHTOOL_GROUP_MAX,
};

/* One that is asked for, by its name ("tx-nocache-copy", as ethtool -k says it). */
struct ethtool_bit {
        const char *name;
        bool known;      /* this kernel, or this driver for its private flags, has it */
        bool changeable; /* not "[fixed]" */
        bool requested;  /* what was asked of the NIC, … */
        bool active;     /* … and what holds: a feature stays off while one it depends on is off */
};

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

/* --- Pure, for tests and fuzzing: named bits (Documentation/networking/ethtool-netlink.rst) --- */

/*
 * Fills bits from the answer about the NIC index, which is the one among the messages that is. -ENODATA:
 * none is; -EBADMSG: malformed; an NLMSG_ERROR before it is its errno.
 */
int ethtool_parse(const void *data, size_t len, enum ethtool_group g, int index, struct ethtool_bit *bits,
                  size_t n);
/* The answer to "which number has the ethtool family", and its multicast group "monitor" (0: none). */
int ethtool_parse_family(const void *data, size_t len, uint16_t *ret_family, uint32_t *ret_monitor);
