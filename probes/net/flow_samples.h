/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What flows tell as the metrics tpu.net.* of docs/metrics.md. Bounded: at most FLOW_NAMED_MAX links of runs
 * have metrics of their own, the first ones and then those that turn bad; the others of a NIC and run are
 * one peer "other". Once it has its own it keeps them, so that no counter steps back.
 */
#include "flows.h"
#include "probe.h"

#define FLOW_NAMED_MAX 32
#define FLOW_NAMED_BAD 8 /* of them are kept for those that turn bad */

/* In flows_end(), before what is new is added. */
void flow_name_link(struct flows *f, struct flow_link *l);
void flow_samples(const struct flows *f, struct sink *s);
