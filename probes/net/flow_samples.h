/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The table as the metrics tpu.net.* of docs/metrics.md: a link that is named (flows.h) has metrics of its
 * own and keeps them, so that no counter steps back. The rest of a NIC and run is one peer "other".
 */
#include "flows.h"
#include "probe.h"

/* What sockets reported: its counters begin with the runs. */
void flow_samples(const struct flows *f, struct sink *s);
/* What BPF counted: its counters begin with the agent. What never happened has no series. */
void flow_event_samples(const struct flows *f, struct sink *s);
