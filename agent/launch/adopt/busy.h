/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The refusal of a run whose chips somebody else holds: all that the kernel shows of the holder. */
#include "device_owners.h"
#include "host.h"
#include "problem.h"

/*
 * Returns -EBUSY with p: the device, the first holder's process, user, program, container or unit, since
 * when it runs, and where it stands in the kernel if it is in state D, so that no signal ends it. The remedy
 * ends it as it was started. o holds one at least.
 */
int busy_refuse(const struct host *h, const struct device_owners *o, const char *run, struct problem *p);
