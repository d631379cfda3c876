/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Runs where no systemd runs: a struct unit_backend over one shim a run (shim.h). */
#include "host.h"
#include "unit.h"

/* Whether systemd is the machine's first process: sd_booted(3), through the seam. */
bool unit_direct_is_needed(const struct host *h);

extern const struct unit_backend unit_direct_backend;

struct unit_direct;
/* tool: what is executed with --shim; PATH_LAUNCHD_TOOL, or a test's. h, tool and events are borrowed. */
int unit_direct_new(sd_event *e, const struct host *h, const char *tool, const struct unit_events *events,
                    void *userdata, struct unit_direct **ret);
struct unit_direct *unit_direct_free(struct unit_direct *u);
DEFINE_CLEANUP(struct unit_direct *, unit_direct_free)
