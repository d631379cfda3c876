/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Memory and swap from /proc/meminfo, faults and kills from /proc/vmstat. */
#include "look.h"

struct memory_state {
        struct source meminfo, vmstat;
};
#define MEMORY_STATE_NULL ((struct memory_state){ SOURCE_NULL, SOURCE_NULL })
void memory_look(struct memory_state *m, const struct look *l);
void memory_close(struct memory_state *m);
