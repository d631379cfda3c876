/* SPDX-License-Identifier: Apache-2.0 */
#include "host_metrics.h"

#include "agents.h"
#include "cpu.h"
#include "disks.h"
#include "memory_use.h"
#include "network.h"
#include "nics.h"
#include "pressure.h"
#include "runs.h"
#include "sensors.h"

struct host_metrics {
        const struct host *host;
        const char *cgroup_base; /* NULL: no control groups of version 2 */
        struct cpu_state cpu;
        struct pressure_state pressure;
        struct memory_state memory;
        struct network_state network;
        struct nics_state nics;
        struct disks_state disks;
        struct sensors_state sensors;
        struct agents_state agents;
        struct runs_state runs;
        struct lines lines;
};

int host_metrics_new(const struct host *h, struct host_metrics **ret) {
        struct host_metrics *m = calloc(1, sizeof(*m));

        if (!m)
                return -ENOMEM;
        m->host = h;
        m->cgroup_base = cgroup_base(h);
        m->cpu = CPU_STATE_NULL;
        pressure_init(&m->pressure);
        m->memory = MEMORY_STATE_NULL;
        m->network = NETWORK_STATE_NULL;
        nics_init(&m->nics, h);
        disks_init(&m->disks);
        sensors_init(&m->sensors, h);
        agents_init(&m->agents, m->cgroup_base);
        runs_init(&m->runs);
        *ret = m;
        return 0;
}

struct host_metrics *host_metrics_free(struct host_metrics *m) {
        if (!m)
                return NULL;
        cpu_close(&m->cpu);
        pressure_close(&m->pressure);
        memory_close(&m->memory);
        network_close(&m->network);
        nics_close(&m->nics);
        disks_close(&m->disks);
        sensors_close(&m->sensors);
        agents_close(&m->agents);
        runs_close(&m->runs);
        free(m);
        return NULL;
}

void host_metrics_look(struct host_metrics *m, usec_t now, struct sink *s) {
        const struct look l = { .host = m->host, .sink = s, .lines = &m->lines, .now = now };

        cpu_look(&m->cpu, &l);
        pressure_look(&m->pressure, &l);
        memory_look(&m->memory, &l);
        nics_look(&m->nics, &l);
        network_look(&m->network, &l);
        disks_look(&m->disks, &l);
        sensors_look(&m->sensors, &l);
        agents_look(&m->agents, &l);
}

void host_metrics_look_at_run(struct host_metrics *m, const char *job, struct sink *s) {
        const struct look l = { .host = m->host, .sink = s, .lines = &m->lines };

        if (m->cgroup_base)
                runs_look(&m->runs, m->cgroup_base, job, &l);
}

void host_metrics_runs_end(struct host_metrics *m) {
        runs_end(&m->runs);
}

int host_metrics_look_close(struct host_metrics *m, const char *job, usec_t now, struct run_look *ret) {
        return m->cgroup_base ? run_look_take(m->host, m->cgroup_base, job, now, ret) : -ENOENT;
}

void host_metrics_run_counters(struct host_metrics *m, const char *job, bool anew, struct run_counters *ret) {
        const struct look l = { .host = m->host, .lines = &m->lines };
        const struct run_group *g = m->cgroup_base ? runs_counters(&m->runs, m->cgroup_base, job, anew, &l) : NULL;

        if (anew)
                nics_look_at_bytes(&m->nics, &l);
        *ret = (struct run_counters){ .cpu_usec = -1, .written_bytes = -1, .net_bytes = m->nics.bytes };
        if (!g)
                return;
        if (g->cpu.user_usec >= 0 && g->cpu.system_usec >= 0)
                ret->cpu_usec = sum_held(g->cpu.user_usec, g->cpu.system_usec);
        ret->written_bytes = g->io.written_bytes;
}
