/* SPDX-License-Identifier: Apache-2.0 */
#include "host_metrics.h"

#include "network.h"

/* What our own daemons take, workers and captures included: the control groups of their units. */

#define AGENT_UNITS 3
struct agents_state {
        struct cgroup_files units[AGENT_UNITS];
        bool known; /* units are set up */
};

static const char *const units[] = { "tpu-hostd.service", "tpu-netcfg.service", "tpu-launchd.service" };
_Static_assert(ELEMENTSOF(units) == AGENT_UNITS, "a name a unit");

static void agents_init(struct agents_state *a, const char *base) {
        char group[CGROUP_PATH_MAX];

        a->known = true;
        for (size_t i = 0; i < AGENT_UNITS; i++) {
                (void) snprintf(group, sizeof(group), "/system.slice/%s", units[i]);
                a->known &= cgroup_files_init(&a->units[i], base ? base : "", group) >= 0;
        }
        a->known &= base != NULL;
}

static void agents_close(struct agents_state *a) {
        for (size_t i = 0; i < AGENT_UNITS; i++)
                cgroup_files_close(&a->units[i]);
}

static void agents_look(struct agents_state *a, const struct metrics_look *l) {
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

struct host_metrics {
        const struct host *host;
        const char *cgroup_base; /* NULL: no control groups of version 2 */
        struct source files[_HOST_FILE_MAX];
        struct system_state system;
        struct nics_state nics;
        struct disks_state disks;
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
        for (size_t f = 0; f < _HOST_FILE_MAX; f++)
                m->files[f] = SOURCE_NULL;
        nics_init(&m->nics);
        agents_init(&m->agents, m->cgroup_base);
        runs_init(&m->runs);
        *ret = m;
        return 0;
}

struct host_metrics *host_metrics_free(struct host_metrics *m) {
        if (!m)
                return NULL;
        for (size_t f = 0; f < _HOST_FILE_MAX; f++)
                source_close(&m->files[f]);
        agents_close(&m->agents);
        runs_close(&m->runs);
        free(m);
        return NULL;
}

void host_metrics_look(struct host_metrics *m, usec_t now, struct sink *s) {
        const struct metrics_look l = {
                .host = m->host, .sink = s, .lines = &m->lines, .files = m->files, .now = now
        };

        system_look(&m->system, &l);
        nics_look(&m->nics, &l);
        network_look(&l);
        disks_look(&m->disks, &l);
        agents_look(&m->agents, &l);
}

void host_metrics_look_at_run(struct host_metrics *m, const char *run, const char *group, struct sink *s) {
        const struct metrics_look l = { .host = m->host, .sink = s, .lines = &m->lines, .files = m->files };

        if (m->cgroup_base)
                runs_look(&m->runs, m->cgroup_base, run, group, &l);
}

void host_metrics_runs_end(struct host_metrics *m) {
        runs_end(&m->runs);
}

int host_metrics_look_close(struct host_metrics *m, const char *run, const char *group, usec_t now,
                            struct run_look *ret) {
        return m->cgroup_base ? run_look_take(m->host, m->cgroup_base, run, group, now, ret) : -ENOENT;
}

void host_metrics_run_counters(struct host_metrics *m, const char *run, const char *group, bool anew,
                               struct run_counters *ret) {
        const struct metrics_look l = { .host = m->host, .lines = &m->lines, .files = m->files };
        const struct run_group *g =
                m->cgroup_base ? runs_counters(&m->runs, m->cgroup_base, run, group, anew, &l) : NULL;

        if (anew)
                nics_look_at_bytes(&m->nics, &l);
        *ret = (struct run_counters){ .cpu_usec = -1, .written_bytes = -1, .net_bytes = m->nics.bytes };
        if (!g)
                return;
        if (g->cpu.user_usec >= 0 && g->cpu.system_usec >= 0)
                ret->cpu_usec = sum_held(g->cpu.user_usec, g->cpu.system_usec);
        ret->written_bytes = g->io.written_bytes;
}
