/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What agents say of bad links of their hosts (findings LINK_CHECK, the worst first: subject is the peer's
 * address, found is "from ADDRESS, NIC eth1 to worker 5: 38 RTOs in 10 s"): words for a verdict, and
 * evidence only as paths.h takes them.
 */
#include "evidence.h"

#define LINK_CHECK "net.link"

struct path_end;

/* The worst of the host's own, of this end alone where there is one (end may be NULL), in either capture;
 * "NIC eth1 to …". NULL: it says nothing. */
const char *link_quote_own(const struct evidence *e, uint32_t host, const struct path_end *end);
/* What another host says of its way to that end; ret_host: who. NULL: nobody. */
const char *link_quote_of(const struct evidence *e, const struct path_end *end, uint32_t *ret_host);
/* The first of all hosts, in their order. NULL: none. */
const char *link_quote_any(const struct evidence *e, uint32_t *ret_host);
