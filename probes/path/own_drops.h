/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What this host's own kernel has thrown away of what it was to send, as its counters say it: the packet
 * filter tells a connection nothing, and neither does an IPsec policy. Two readings around a try tell
 * whether a silent peer is to blame.
 */
#include "base.h"
#include "host.h"

struct own_drops {
        uint64_t refused; /* segments that could not be sent again: TCPRetransFail of /proc/net/netstat */
        uint64_t ipsec;   /* of the policies: XfrmOut… of /proc/net/xfrm_stat */
};

/* What cannot be read stays 0. */
void own_drops_read(const struct host *h, struct own_drops *ret);

/* Who dropped between both, in words: NULL: nobody here. */
const char *own_drops_words(const struct own_drops *before, const struct own_drops *after);
