/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Routes as findings and plans name them, and which are the host's data-centre ones. Pure.
 */
#include "intent.h"
#include "links.h"
#include "routes.h"

/* A route as it is named: where to, its first NIC, its table and priority when they are not the usual ones.
 */
void route_subject(const struct route *r, const struct link_table *links, char buf[static 64]);
/* The first one of that name, or NULL. */
const struct route *route_by_subject(const struct route_table *t, const struct link_table *links,
                                     const char *subject);
/* Its least retransmission time: "none", "40ms", or "5ms,lock"; without the lock TCP does not heed it. */
#define ROUTE_VALUE_MAX 24
void route_value(const struct route *r, char buf[static ROUTE_VALUE_MAX]);
bool route_parse_value(const char *text, uint32_t *ret_ms, bool *ret_lock);
/* A route, not of source routing's own tables, all of whose next hops are data-centre NICs. */
bool plan_is_data_route(const struct intent *i, const struct link_table *links, const struct route *r);
