/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The table as the metrics tpu.net.* of docs/metrics.md. Bounded: at most FLOW_NAMED_MAX links that are
 * judged have metrics of their own, the first ones and then those that turn bad, and FLOW_NAMED_OTHERS
 * of those that only BPF counts; the rest of a NIC and run is one peer "other". Once a link has its own
 * it keeps them, so that no counter steps back.
 */
#include "flows.h"
#include "probe.h"

#define FLOW_NAMED_MAX 32
#define FLOW_NAMED_BAD 8 /* of them are kept for those that turn bad */
#define FLOW_NAMED_OTHERS 16

/* Before what is new is added. */
void flow_name_link(struct flows *f, struct flow_link *l);
/* What sockets told: its counters begin with the runs. */
void flow_samples(const struct flows *f, struct sink *s);
/* What BPF counted: its counters begin with the agent. What never happened has no series. */
void flow_event_samples(const struct flows *f, struct sink *s);
