/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who has a TPU's device node open, or listens on a port that a run binds: the links in /proc/PID/fd of all
 * processes (as tpu-info does it: ^/dev/(accel|vfio)/N$), with unit and command. Answered to anyone: the
 * answer names no file but a device and no argument but a program's first.
 */
#include "device_owners.h"
#include "host.h"
#include "problem.h"

#define OWNERS_FDS_MAX 200000          /* open files looked at: some tenths of a second */
#define OWNERS_KEEP (1 * USEC_PER_SEC) /* an answer is given again for so long, whoever asks */

struct owners_cache {
        struct device_owners owners;
        usec_t taken; /* boot clock; 0: never */
};

/* The answer, freshly looked up or at most OWNERS_KEEP old. */
const struct device_owners *owners_get(const struct host *h, struct owners_cache *c);

/*
 * The refusal of a run whose chips somebody else holds, with all that the kernel shows of the holder.
 * Returns -EBUSY with p: the device, the first holder's process, user, program, container or unit, since
 * when it runs, and where it stands in the kernel if it is in state D, so that no signal ends it. The remedy
 * ends it as it was started. o holds one at least.
 */
int owners_refuse(const struct host *h, const struct device_owners *o, const char *run, struct problem *p);
