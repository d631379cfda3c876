/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that keeps what people ordered for this host (orders.h), and what follows from it: PUT and DELETE
 * of /v1/cordon, /v1/drain, /v1/observe and /v1/silence, the orders in GET /v1/status, their events, and
 * whether tpu-netcfg is to observe. It writes bus->orders. Orders and the health of checks outlive the
 * agent in one file (health_file.h); an order is answered once it is on the disk. Only root may order: an
 * order is about everybody's runs, a member of tpu-run acts on its own only.
 */
#include "part.h"

extern const struct part orders_part;

/* Where orders and the health of checks are kept; NULL: nothing is. */
const char *orders_file(const struct bus *b);
/* The event that o begins or ends. by: who does it now, or "its end". */
void orders_report(struct bus *b, const struct order *o, bool begins, const char *by);
/* bus->orders is another list: what follows from it is done. */
void orders_changed(struct bus *b);
