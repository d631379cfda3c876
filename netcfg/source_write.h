/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One rule or route of source routing (source.h) is added, replaced or removed, and read again. Only what
 * carries our protocol number is ever replaced or removed.
 */
#include "plan.h"

/* -EEXIST: someone else's stands in its place; -EIO: the kernel took it and has something else; else what
 * the kernel answered. */
int source_write_rule(const struct host *h, const struct op *op);
int source_write_route(const struct host *h, const struct op *op);
