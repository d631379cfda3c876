/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One metric of one route, changed in place: the route is given back to the kernel as it was told, but for
 * RTAX_RTO_MIN and its lock. The subject is route_subject()'s, the value route_value()'s (plan.h). The route
 * is looked up anew, so that one that a DHCP client has just replaced is never put back as it was.
 */
#include "plan.h"

/* -ENODEV: there is no such route any more; -EINVAL: no such value; else what the kernel answered. */
int route_set(const struct host *h, const struct link_table *links, const char *subject, const char *value);
