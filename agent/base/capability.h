/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Capabilities of this thread (capabilities(7)), without libcap. */
#include "base.h"

/* cap: CAP_… of <linux/capability.h>. 1: it is effective; 0: it is not; -errno: the kernel does not say. */
int capability_has(unsigned cap);
/*
 * Gives them up, of every set of ours; the bounding set stays: nothing can bring them back with
 * NoNewPrivileges=. -errno: a system call filter forbids it.
 */
int capabilities_drop(const unsigned caps[], size_t n);
