/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The half of observe.h that has files: where the order to observe (observe.h) is kept:
 * /var/lib/tpu-netcfg/observe, for the next boot, and /run/tpu-netcfg/observe for this one, where the first
 * cannot be written.
 */
#include "observe.h"

/*
 * What is kept, the first of both that is there; none: OBSERVE_NULL. One of another boot is taken over into
 * this one (boot_id), and kept so. A file that is damaged is said in a warning, and counts as an order of
 * another boot without an end; one that cannot be read likewise, but only in ret: nothing is kept of it.
 */
void observe_file_load(const struct host *h, int runtime_fd, const char *boot_id, struct observe *ret);
/* Keeps it, or that there is none. Returns 0 when a restart will know it; what a boot will forget is said in
 * a warning. */
int observe_file_save(const struct host *h, int runtime_fd, const struct observe *o);
