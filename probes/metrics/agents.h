/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What our own daemons take, workers and captures included: the control groups of their units. */
#include "cgroup_files.h"

#define AGENT_UNITS 3
struct agents_state {
        struct cgroup_files units[AGENT_UNITS];
        bool known; /* units are set up */
};
void agents_init(struct agents_state *a, const char *base);
void agents_look(struct agents_state *a, const struct look *l);
void agents_close(struct agents_state *a);
