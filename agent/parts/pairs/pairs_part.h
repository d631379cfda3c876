/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The bandwidth between this host and others of its slice, when the registry asks for it (pairs/SLICE,
 * docs/registry.md): round by round with the partner that worker and round say, each NIC, in one direction
 * and then in the other, through port 9470 of both. What was received is reported; check "preflight.pairs"
 * is what the planner makes of it.
 *
 * GET /v1/pairs is the other end of that. It sends to nobody but the partner of the round that this host is
 * in: over TLS, from an address that the registry has of that host, once for each NIC, one at a time, within
 * PAIR_TIME and PAIR_BYTES. Requests are obeyed six times an hour at most, and never beside a run.
 */
#include "part.h"

extern const struct part pairs_part;
