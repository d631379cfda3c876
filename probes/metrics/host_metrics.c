/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"
#include "disks.h"
#include "host_metrics.h"
#include "network.h"
#include "nics.h"
#include "pressure.h"
#include "runs.h"
#include "sensors.h"

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

static void agents_look(struct agents_state *a, const struct look *l) {
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

/* Memory and swap from /proc/meminfo, faults and kills from /proc/vmstat. */

struct memory_state {
        struct source meminfo, vmstat;
};
#define MEMORY_STATE_NULL ((struct memory_state){ SOURCE_NULL, SOURCE_NULL })

#define MISSING (-1)

struct field {
        const char *key;
        int64_t *value;
};

/* "MemTotal:  754974720 kB" into bytes. */
static void take_meminfo(const char *line, const struct field *fields, size_t n) {
        const char *colon = strchr(line, ':'), *p;
        int64_t kb;

        if (!colon)
                return;
        for (size_t i = 0; i < n; i++) {
                if (!word_is(line, (size_t) (colon - line), fields[i].key))
                        continue;
                p = colon + 1;
                if (take_number(&p, &kb) && streq(p, " kB") && kb <= INT64_MAX / 1024)
                        *fields[i].value = kb * 1024;
                return;
        }
}

static void put_if(const struct look *l, enum metric_id id, int64_t value, const char *state) {
        if (value != MISSING)
                put_int(l->sink, id, value, state, NULL, NULL);
}

static void look_at_sizes(struct memory_state *m, const struct look *l) {
        int64_t total = MISSING, available = MISSING, unused = MISSING, buffers = MISSING, cached = MISSING,
                swap = MISSING, swap_free = MISSING, dirty = MISSING, writeback = MISSING,
                reclaimable = MISSING, unreclaimable = MISSING;
        const struct field fields[] = {
                { "MemTotal", &total },       { "MemAvailable", &available },  { "MemFree", &unused },
                { "Buffers", &buffers },      { "Cached", &cached },           { "SwapTotal", &swap },
                { "SwapFree", &swap_free },   { "Dirty", &dirty },             { "Writeback", &writeback },
                { "SReclaimable", &reclaimable }, { "SUnreclaim", &unreclaimable },
        };

        if (lines_begin(l->lines, &m->meminfo, l->host, "/proc/meminfo") < 0)
                return;
        for (char *line; (line = lines_next(l->lines));)
                take_meminfo(line, fields, ELEMENTSOF(fields));
        if (total == MISSING)
                return; /* not a meminfo */
        put_if(l, METRIC_MEMORY_LIMIT, total, NULL);
        put_if(l, METRIC_MEMORY_AVAILABLE, available, NULL);
        put_if(l, METRIC_MEMORY_USAGE, unused, "free");
        put_if(l, METRIC_MEMORY_USAGE, buffers, "buffers");
        put_if(l, METRIC_MEMORY_USAGE, cached, "cached");
        if (unused != MISSING && buffers != MISSING && cached != MISSING &&
            sum_held(sum_held(unused, buffers), cached) <= total)
                put_int(l->sink, METRIC_MEMORY_USAGE, total - unused - buffers - cached, "used", NULL, NULL);
        put_if(l, METRIC_MEMORY_SLAB, reclaimable, "reclaimable");
        put_if(l, METRIC_MEMORY_SLAB, unreclaimable, "unreclaimable");
        put_if(l, METRIC_MEMORY_UNWRITTEN, dirty, "dirty");
        put_if(l, METRIC_MEMORY_UNWRITTEN, writeback, "writeback");
        if (swap > 0 && swap_free != MISSING && swap_free <= swap) {
                put_int(l->sink, METRIC_PAGING_USAGE, swap_free, "free", NULL, NULL);
                put_int(l->sink, METRIC_PAGING_USAGE, swap - swap_free, "used", NULL, NULL);
        }
}

static void look_at_events(struct memory_state *m, const struct look *l) {
        int64_t faults = MISSING, major = MISSING, in = MISSING, out = MISSING, kills = MISSING,
                stalls = MISSING;
        const struct field fields[] = { { "pgfault", &faults }, { "pgmajfault", &major }, { "pswpin", &in },
                                        { "pswpout", &out },    { "oom_kill", &kills } };

        if (lines_begin(l->lines, &m->vmstat, l->host, "/proc/vmstat") < 0)
                return;
        for (char *line; (line = lines_next(l->lines));) {
                const char *p = line, *key;
                int64_t value;
                size_t n;

                key = take_word(&p, &n);
                if (!key || !take_number(&p, &value) || *p)
                        continue;
                for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                        if (word_is(key, n, fields[i].key))
                                *fields[i].value = value;
                if (startswith(key, "allocstall_")) /* one a zone */
                        stalls = sum_held(MAX(stalls, (int64_t) 0), value);
        }
        if (faults != MISSING && major != MISSING && major <= faults)
                put_int(l->sink, METRIC_PAGING_FAULTS, faults - major, "minor", NULL, NULL);
        put_if(l, METRIC_PAGING_FAULTS, major, "major");
        put_if(l, METRIC_PAGING_OPERATIONS, in, "in");
        put_if(l, METRIC_PAGING_OPERATIONS, out, "out");
        put_if(l, METRIC_OOM_KILLS, kills, NULL);
        put_if(l, METRIC_ALLOCATION_STALLS, stalls, NULL);
}

static void memory_look(struct memory_state *m, const struct look *l) {
        look_at_sizes(m, l);
        look_at_events(m, l);
}

static void memory_close(struct memory_state *m) {
        source_close(&m->meminfo);
        source_close(&m->vmstat);
}

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
