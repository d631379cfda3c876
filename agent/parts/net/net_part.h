/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * "net": the part that watches the network of this host in the tick: the links of its runs to their peers
 * out of one dump of the TCP sockets while a run lives (no run: no dump), and what the network set of BPF
 * programs counted, where it runs. Samples tpu.net.* of docs/metrics.md; the events tpu.net.link_bad,
 * tpu.net.links_good and tpu.net.packets_dropped; GET /v1/net. When a run is suspected to stall: who owes
 * whom, for the registry.
 *
 * "path": the path proof for the API's callers (GET and POST /v1/path): at most one at a time, in this loop,
 * and its report is kept until the next. Whoever opens the socket may have the host's own peers proven, so
 * that starts are apart in time; other addresses are for root of this very host to name: what leaves from
 * here must not be anybody's choice.
 */
#include "part.h"

extern const struct part net_part, path_part;

/* Findings FLOW_LINK_CHECK of the bad links for a capture: as of the last dump. */
void net_tell_links(const struct bus *b, struct finding_list *list);
