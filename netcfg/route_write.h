/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Single writes of routes and rules, each verified by reading again. */
#include "plan.h"

/*
 * One metric of one route, changed in place: the route is given back to the kernel as it was read, but for
 * RTAX_RTO_MIN and its lock. The subject is route_subject()'s, the value route_value()'s (op.h). The route
 * is looked up anew, so that one that a DHCP client has just replaced is never put back as it was.
 *
 * -ENODEV: there is no such route any more; -EINVAL: no such value; else what the kernel answered.
 */
int route_set(const struct host *h, const struct link_table *links, const char *subject, const char *value);

/*
 * One rule or route of source routing (source.h) is added, replaced or removed, and read again. Only what
 * carries our protocol number is ever replaced or removed.
 *
 * -EEXIST: someone else's stands in its place; -EIO: the kernel took it and has something else; else what
 * the kernel answered.
 */
int source_write_rule(const struct host *h, const struct plan_op *op);
int source_write_route(const struct host *h, const struct plan_op *op);
