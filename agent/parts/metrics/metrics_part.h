/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The parts that measure this host in the tick, without any process of a run: "metrics" (what
 * docs/metrics.md has of the host, of the control groups of its runs and of tpu-hostd itself; the event
 * tpu.agent.started) and "kernel" (the kernel log: its numbers, and the event tpu.kernel.fault).
 */
#include "host_metrics.h"
#include "part.h"

extern const struct part metrics_part, kernel_part;

/* Never NULL, once the part has started. */
struct host_metrics *metrics_of(const struct bus *b);
