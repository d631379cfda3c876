/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* CPU time by mode from /proc/stat, the CPUs online, the host's uptime. */
#include "look.h"

#define CPU_MODES 8
struct cpu_state {
        struct source stat, online;
        int64_t held[CPU_MODES]; /* idle and iowait can step back a little (proc(5)): a counter must not */
};
#define CPU_STATE_NULL ((struct cpu_state){ .stat = SOURCE_NULL, .online = SOURCE_NULL })

void cpu_look(struct cpu_state *c, const struct look *l);
void cpu_close(struct cpu_state *c);
/* Pure: how many CPUs a list like "0-3,8" names. 0: it is none. */
int64_t cpu_list_count(const char *text);
