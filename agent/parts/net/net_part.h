/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that watches the network of this host in the tick: the links of its runs to their peers out of
 * one dump of the TCP sockets while a run lives (no run: no dump), and what the network set of BPF programs
 * counted, where it runs. Samples tpu.net.* of docs/metrics.md; the events tpu.net.link_bad,
 * tpu.net.links_good and tpu.net.packets_dropped; GET /v1/net. When a run is suspected to stall: who owes
 * whom, for the registry.
 */
#include "part.h"

extern const struct part net_part;

/* Findings FLOW_LINK_CHECK of the bad links for a capture: as of the last dump. */
void net_tell_links(const struct bus *b, struct finding_list *list);
