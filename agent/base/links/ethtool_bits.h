/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the kernel answers when it is asked for a NIC's features or private flags over its ethtool family of
 * generic netlink (Documentation/networking/ethtool-netlink.rst): named bits. Pure; the bytes may come from
 * anywhere.
 */
#include "base.h"

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

/*
 * Fills bits from the answer about the NIC index, which is the one among the messages that is. -ENODATA:
 * none is; -EBADMSG: malformed; an NLMSG_ERROR before it is its errno.
 */
int ethtool_parse(const void *data, size_t len, enum ethtool_group g, int index, struct ethtool_bit *bits,
                  size_t n);
/* The answer to "which number has the ethtool family", and its multicast group "monitor" (0: none). */
int ethtool_parse_family(const void *data, size_t len, uint16_t *ret_family, uint32_t *ret_monitor);
