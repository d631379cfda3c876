/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The machine type of a probe's context: told by whoever runs the probe, else looked up in machines.conf. */
#include "machine.h"
#include "probe.h"

/* False: no machine type is known, or machines.conf does not have it. */
bool machine_of(const struct host *h, const struct probe_context *c, struct machine_type *ret);
