/* SPDX-License-Identifier: Apache-2.0 */
#include "runs.h"

void runs_init(struct runs_state *r) {
        r->n = 0;
}

static void drop(struct runs_state *r, size_t i) {
        cgroup_files_close(&r->groups[i].files);
        r->groups[i] = r->groups[--r->n];
}

void runs_close(struct runs_state *r) {
        while (r->n > 0)
                drop(r, r->n - 1);
}

void runs_end(struct runs_state *r) {
        for (size_t i = r->n; i > 0; i--)
                if (!r->groups[i - 1].seen)
                        drop(r, i - 1);
        for (size_t i = 0; i < r->n; i++)
                r->groups[i].seen = false;
}

/* tpu-run-NAME.slice lies in tpu-run.slice and that in tpu.slice (systemd.slice(5)); a '-' of the name is a
 * '_' there, or it would nest, too. */
int run_group_path(const char *job, char *buf, size_t size) {
        int n = snprintf(buf, size, "/tpu.slice/tpu-run.slice/tpu-run-%s.slice", job);

        if (n < 0 || (size_t) n >= size || strchr(job, '/') || strchr(job, '.') || job[0] == 0)
                return -EINVAL;
        for (char *p = buf + strlen("/tpu.slice/tpu-run.slice/tpu-run-"); *p; p++)
                if (*p == '-')
                        *p = '_';
        return 0;
}

static struct run_group *find_group(struct runs_state *r, const char *base, const char *job) {
        char group[CGROUP_PATH_MAX];
        struct run_group *g;

        for (size_t i = 0; i < r->n; i++)
                if (streq(r->groups[i].job, job))
                        return &r->groups[i];
        if (r->n == RUN_GROUPS_MAX || strlen(job) >= RUN_JOB_MAX || run_group_path(job, group, sizeof(group)) < 0)
                return NULL;
        g = &r->groups[r->n];
        if (cgroup_files_init(&g->files, base, group) < 0)
                return NULL;
        (void) snprintf(g->job, sizeof(g->job), "%s", job);
        g->cpu = (struct cgroup_cpu){ -1, -1, -1 };
        g->io = (struct cgroup_io){ -1, -1 };
        g->seen = true; /* until the next look is over */
        r->n++;
        return g;
}

static void put_if(const struct look *l, enum metric_id id, int64_t value, const char *job, const char *v1) {
        if (value >= 0)
                put_int(l->sink, id, value, job, v1, NULL);
}

static void put_usec(const struct look *l, enum metric_id id, int64_t usec, const char *job, const char *v1,
                     const char *v2) {
        if (usec >= 0)
                put_double(l->sink, id, (double) usec / 1e6, job, v1, v2);
}

static void look_at_counters(struct run_group *g, const struct look *l) {
        cgroup_cpu(&g->files, l, &g->cpu);
        cgroup_io(&g->files, l, &g->io);
}

const struct run_group *runs_counters(struct runs_state *r, const char *base, const char *job, bool anew,
                                      const struct look *l) {
        struct run_group *g = find_group(r, base, job);

        if (g && anew)
                look_at_counters(g, l);
        return g;
}

void runs_look(struct runs_state *r, const char *base, const char *job, const struct look *l) {
        struct run_group *g = find_group(r, base, job);
        struct cgroup_memory memory;

        if (!g)
                return;
        g->seen = true;
        look_at_counters(g, l);
        put_usec(l, METRIC_RUN_CPU, g->cpu.user_usec, g->job, "user", NULL);
        put_usec(l, METRIC_RUN_CPU, g->cpu.system_usec, g->job, "system", NULL);
        put_usec(l, METRIC_RUN_CPU_THROTTLED, g->cpu.throttled_usec, g->job, NULL, NULL);
        cgroup_memory(&g->files, l, &memory);
        put_if(l, METRIC_RUN_MEMORY, memory.current, g->job, NULL);
        put_if(l, METRIC_RUN_MEMORY_STATE, memory.anonymous, g->job, "anonymous");
        put_if(l, METRIC_RUN_MEMORY_STATE, memory.file, g->job, "file");
        put_if(l, METRIC_RUN_MEMORY_STATE, memory.kernel, g->job, "kernel");
        put_if(l, METRIC_RUN_OOM_KILLS, memory.oom_kills, g->job, NULL);
        put_if(l, METRIC_RUN_MAJOR_FAULTS, memory.major_faults, g->job, NULL);
        put_if(l, METRIC_RUN_REFAULTS, memory.refaults, g->job, NULL);
        put_if(l, METRIC_RUN_RECLAIMED, memory.reclaimed, g->job, NULL);
        put_if(l, METRIC_RUN_TASKS, cgroup_tasks(&g->files, l), g->job, NULL);
        put_if(l, METRIC_RUN_DISK_IO, g->io.read_bytes, g->job, "read");
        put_if(l, METRIC_RUN_DISK_IO, g->io.written_bytes, g->job, "write");
        for (enum pressure_resource p = PRESSURE_CPU; p <= PRESSURE_IO; p++) {
                int64_t some, full;

                cgroup_pressure(&g->files, p, l, &some, &full);
                put_usec(l, METRIC_RUN_PRESSURE, some, g->job, pressure_resource_name(p), "some");
                put_usec(l, METRIC_RUN_PRESSURE, full, g->job, pressure_resource_name(p), "full");
        }
}
