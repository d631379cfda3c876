/* SPDX-License-Identifier: Apache-2.0 */
#include "agents.h"

static const char *const units[] = { "tpu-hostd.service", "tpu-netcfg.service", "tpu-launchd.service" };
_Static_assert(ELEMENTSOF(units) == AGENT_UNITS, "a name a unit");

void agents_init(struct agents_state *a, const char *base) {
        char group[CGROUP_PATH_MAX];

        a->known = true;
        for (size_t i = 0; i < AGENT_UNITS; i++) {
                (void) snprintf(group, sizeof(group), "/system.slice/%s", units[i]);
                a->known &= cgroup_files_init(&a->units[i], base ? base : "", group) >= 0;
        }
        a->known &= base != NULL;
}

void agents_close(struct agents_state *a) {
        for (size_t i = 0; i < AGENT_UNITS; i++)
                cgroup_files_close(&a->units[i]);
}

void agents_look(struct agents_state *a, const struct look *l) {
        for (size_t i = 0; a->known && i < AGENT_UNITS; i++) {
                int64_t bytes;
                struct cgroup_cpu cpu;

                cgroup_cpu(&a->units[i], l, &cpu);
                if (cpu.user_usec >= 0)
                        put_double(l->sink, METRIC_AGENT_CPU, (double) cpu.user_usec / 1e6, units[i], "user",
                                   NULL);
                if (cpu.system_usec >= 0)
                        put_double(l->sink, METRIC_AGENT_CPU, (double) cpu.system_usec / 1e6, units[i],
                                   "system", NULL);
                bytes = cgroup_memory_current(&a->units[i], l);
                if (bytes >= 0)
                        put_int(l->sink, METRIC_AGENT_MEMORY, bytes, units[i], NULL, NULL);
        }
}
