/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#define WALK_DEPTH 6

static const char *const names[] = {
        [CGROUP_CPU_STAT] = "cpu.stat",
        [CGROUP_MEMORY_CURRENT] = "memory.current",
        [CGROUP_MEMORY_STAT] = "memory.stat",
        [CGROUP_MEMORY_EVENTS] = "memory.events",
        [CGROUP_PIDS_CURRENT] = "pids.current",
        [CGROUP_IO_STAT] = "io.stat",
        [CGROUP_CPU_PRESSURE] = "cpu.pressure",
        [CGROUP_MEMORY_PRESSURE] = "memory.pressure",
        [CGROUP_IO_PRESSURE] = "io.pressure",
};
_Static_assert(ELEMENTSOF(names) == _CGROUP_FILE_MAX, "a name a file");

const char *cgroup_base(const struct host *h) {
        static const struct {
                const char *file, *base;
        } layouts[] = {
                { "/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup" },
                { "/sys/fs/cgroup/unified/cgroup.controllers", "/sys/fs/cgroup/unified" },
        };

        for (size_t i = 0; i < ELEMENTSOF(layouts); i++) {
                _cleanup_close_ int fd = host_open_file(h, layouts[i].file, O_PATH);

                if (fd >= 0)
                        return layouts[i].base;
        }
        return NULL;
}

struct walk {
        const struct host *host;
        char path[512];
        size_t len;
        unsigned depth;
        int (*take)(const char *path, uint64_t id, void *userdata);
        void *userdata;
};

static int walk_group(struct walk *w);

/* "memory.max" and its like are files of the group itself; a folder of such a name is none that systemd
 * makes. */
static bool is_file_of_group(const char *name) {
        static const char *const prefixes[] = { "cgroup.", "cpu.",    "cpuset.", "hugetlb.", "io.",
                                                "irq.",    "memory.", "misc.",   "pids.",    "rdma." };

        for (size_t i = 0; i < ELEMENTSOF(prefixes); i++)
                if (startswith(name, prefixes[i]))
                        return true;
        return false;
}

static int walk_below(const char *name, void *userdata) {
        struct walk *w = userdata;
        size_t len = w->len, room = sizeof(w->path) - len;
        int n, r;

        if (w->depth == WALK_DEPTH || is_file_of_group(name))
                return 0;
        n = snprintf(w->path + len, room, "/%s", name);
        if (n < 0 || (size_t) n >= room) {
                w->path[len] = '\0';
                return 0;
        }
        w->len += (size_t) n;
        w->depth++;
        r = walk_group(w);
        w->depth--;
        w->len = len;
        w->path[len] = '\0';
        return r == -ENOMEM ? r : 0; /* no folder, or a group that is gone */
}

static int walk_group(struct walk *w) {
        int fd = host_open_file(w->host, w->path, O_PATH | O_DIRECTORY), r;
        struct stat st;

        if (fd < 0)
                return -ENOENT;
        r = fstat(fd, &st);
        close_fd(fd);
        r = r < 0 ? -ENOENT : w->take(w->path, st.st_ino, w->userdata);
        if (r == 0)
                r = host_list(w->host, w->path, walk_below, w) == -ENOMEM ? -ENOMEM : 0;
        return r;
}

int cgroup_walk(const struct host *h, const char *path,
                int (*take)(const char *path, uint64_t id, void *userdata), void *userdata) {
        struct walk w = { .host = h, .take = take, .userdata = userdata };
        int n = snprintf(w.path, sizeof(w.path), "%s", path);

        if (n < 0 || (size_t) n >= sizeof(w.path))
                return -ENOENT;
        w.len = (size_t) n;
        return walk_group(&w);
}

int cgroup_files_init(struct cgroup_files *c, const char *base, const char *group) {
        int n = snprintf(c->path, sizeof(c->path), "%s%s", base, group);

        for (size_t i = 0; i < _CGROUP_FILE_MAX; i++)
                c->files[i] = SOURCE_NULL;
        return n < 0 || (size_t) n >= sizeof(c->path) ? -ENAMETOOLONG : 0;
}

void cgroup_files_close(struct cgroup_files *c) {
        for (size_t i = 0; i < _CGROUP_FILE_MAX; i++)
                source_close(&c->files[i]);
}

static void path_of_file(const struct cgroup_files *c, enum cgroup_file f,
                    char path[static CGROUP_PATH_MAX + 24]) {
        (void) snprintf(path, CGROUP_PATH_MAX + 24, "%s/%s", c->path, names[f]);
}

/* A file of lines "key number". */
static void read_fields(struct cgroup_files *c, enum cgroup_file f, const struct metrics_look *l,
                        const struct field *fields, size_t n) {
        char path[CGROUP_PATH_MAX + 24];

        for (size_t i = 0; i < n; i++)
                *fields[i].value = FIELD_MISSING;
        path_of_file(c, f, path);
        if (lines_begin(l->lines, &c->files[f], l->host, path) == 0)
                lines_fields(l->lines, fields, n, "", 1);
}

static int64_t read_number(struct cgroup_files *c, enum cgroup_file f, const struct metrics_look *l) {
        char path[CGROUP_PATH_MAX + 24], text[64];
        const char *p = text;
        int64_t v;

        path_of_file(c, f, path);
        if (source_read(&c->files[f], l->host, path, text, sizeof(text)) < 0 || !take_number(&p, &v) ||
            (*p != 0 && *p != '\n'))
                return FIELD_MISSING;
        return v;
}

void cgroup_cpu(struct cgroup_files *c, const struct metrics_look *l, struct cgroup_cpu *ret) {
        const struct field fields[] = { { "user_usec", &ret->user_usec },
                                        { "system_usec", &ret->system_usec },
                                        { "throttled_usec", &ret->throttled_usec } };

        read_fields(c, CGROUP_CPU_STAT, l, fields, ELEMENTSOF(fields));
}

int64_t cgroup_memory_current(struct cgroup_files *c, const struct metrics_look *l) {
        return read_number(c, CGROUP_MEMORY_CURRENT, l);
}

void cgroup_memory(struct cgroup_files *c, const struct metrics_look *l, struct cgroup_memory *ret) {
        const struct field parts[] = { { "anon", &ret->anonymous },
                                       { "file", &ret->file },
                                       { "kernel", &ret->kernel },
                                       { "pgmajfault", &ret->major_faults },
                                       { "workingset_refault_file", &ret->refaults },
                                       { "pgsteal_direct", &ret->reclaimed } };
        const struct field events[] = { { "oom_kill", &ret->oom_kills } };

        ret->current = cgroup_memory_current(c, l);
        read_fields(c, CGROUP_MEMORY_STAT, l, parts, ELEMENTSOF(parts));
        read_fields(c, CGROUP_MEMORY_EVENTS, l, events, ELEMENTSOF(events));
}

int64_t cgroup_tasks(struct cgroup_files *c, const struct metrics_look *l) {
        return read_number(c, CGROUP_PIDS_CURRENT, l);
}

/* "8:0 rbytes=1 wbytes=2 rios=…", a line a disk. */
void cgroup_io(struct cgroup_files *c, const struct metrics_look *l, struct cgroup_io *ret) {
        char path[CGROUP_PATH_MAX + 24];

        *ret = (struct cgroup_io){ FIELD_MISSING, FIELD_MISSING };
        path_of_file(c, CGROUP_IO_STAT, path);
        if (lines_begin(l->lines, &c->files[CGROUP_IO_STAT], l->host, path) < 0)
                return;
        *ret = (struct cgroup_io){ 0, 0 };
        for (char *line; (line = lines_next(l->lines));) {
                const char *p = line, *word;
                size_t len;

                while ((word = take_word(&p, &len))) {
                        bool read = startswith(word, "rbytes="), written = startswith(word, "wbytes=");
                        const char *number = word + strlen("rbytes=");
                        int64_t v;

                        if (!(read || written) || !take_number(&number, &v) || number != word + len)
                                continue;
                        if (read)
                                ret->read_bytes = sum_held(ret->read_bytes, v);
                        else
                                ret->written_bytes = sum_held(ret->written_bytes, v);
                }
        }
}

void cgroup_pressure(struct cgroup_files *c, enum pressure_resource r, const struct metrics_look *l,
                     int64_t *ret_some, int64_t *ret_full) {
        enum cgroup_file f = r == PRESSURE_CPU      ? CGROUP_CPU_PRESSURE
                             : r == PRESSURE_MEMORY ? CGROUP_MEMORY_PRESSURE
                                                    : CGROUP_IO_PRESSURE;
        char path[CGROUP_PATH_MAX + 24], text[512];

        *ret_some = *ret_full = FIELD_MISSING;
        path_of_file(c, f, path);
        if (source_read(&c->files[f], l->host, path, text, sizeof(text)) < 0)
                return;
        if (!pressure_total(text, "some", ret_some))
                *ret_some = FIELD_MISSING;
        if (!pressure_total(text, "full", ret_full))
                *ret_full = FIELD_MISSING;
}

/* --- Runs ---------------------------------------------------------------------------------------------- */

void runs_init(struct runs_state *r) {
        r->n = 0;
}

static void drop_group(struct runs_state *r, size_t i) {
        cgroup_files_close(&r->groups[i].files);
        r->groups[i] = r->groups[--r->n];
}

void runs_close(struct runs_state *r) {
        while (r->n > 0)
                drop_group(r, r->n - 1);
}

void runs_end(struct runs_state *r) {
        for (size_t i = r->n; i > 0; i--)
                if (!r->groups[i - 1].seen)
                        drop_group(r, i - 1);
        for (size_t i = 0; i < r->n; i++)
                r->groups[i].seen = false;
}

/* tpu-run-NAME.slice lies in tpu-run.slice and that in tpu.slice (systemd.slice(5)); a '-' of the name is a
 * '_' there, or it would nest, too. */
int run_group_path(const char *run, const char *group, char *buf, size_t size) {
        int n = group ? snprintf(buf, size, "%s", group)
                      : snprintf(buf, size, "/tpu.slice/tpu-run.slice/tpu-run-%s.slice", run);

        if (n < 0 || (size_t) n >= size || strchr(run, '/') || strchr(run, '.') || run[0] == 0)
                return -EINVAL;
        if (group)
                return group[0] != '/' || strstr(group, "/..") || streq(group, "/") ? -EINVAL : 0;
        for (char *p = buf + strlen("/tpu.slice/tpu-run.slice/tpu-run-"); *p; p++)
                if (*p == '-')
                        *p = '_';
        return 0;
}

static struct run_group *find_run_group(struct runs_state *r, const char *base, const char *run,
                                        const char *own) {
        char group[CGROUP_PATH_MAX];
        struct run_group *g;

        for (size_t i = 0; i < r->n; i++)
                if (streq(r->groups[i].run, run))
                        return &r->groups[i];
        if (r->n == RUN_GROUPS_MAX || strlen(run) >= RUN_NAME_SIZE ||
            run_group_path(run, own, group, sizeof(group)) < 0)
                return NULL;
        g = &r->groups[r->n];
        if (cgroup_files_init(&g->files, base, group) < 0)
                return NULL;
        (void) snprintf(g->run, sizeof(g->run), "%s", run);
        g->cpu = (struct cgroup_cpu){ -1, -1, -1 };
        g->io = (struct cgroup_io){ -1, -1 };
        g->seen = true; /* until the next look is over */
        r->n++;
        return g;
}

static void put_if(const struct metrics_look *l, enum metric_id id, int64_t value, const char *run,
                   const char *v1) {
        if (value >= 0)
                put_int(l->sink, id, value, run, v1, NULL);
}

static void put_usec(const struct metrics_look *l, enum metric_id id, int64_t usec, const char *run,
                     const char *v1, const char *v2) {
        if (usec >= 0)
                put_double(l->sink, id, (double) usec / 1e6, run, v1, v2);
}

static void look_at_counters(struct run_group *g, const struct metrics_look *l) {
        cgroup_cpu(&g->files, l, &g->cpu);
        cgroup_io(&g->files, l, &g->io);
}

const struct run_group *runs_counters(struct runs_state *r, const char *base, const char *run,
                                      const char *group, bool anew, const struct metrics_look *l) {
        struct run_group *g = find_run_group(r, base, run, group);

        if (g && anew)
                look_at_counters(g, l);
        return g;
}

void runs_look(struct runs_state *r, const char *base, const char *run, const char *group,
               const struct metrics_look *l) {
        struct run_group *g = find_run_group(r, base, run, group);
        struct cgroup_memory memory;

        if (!g)
                return;
        g->seen = true;
        look_at_counters(g, l);
        put_usec(l, METRIC_RUN_CPU, g->cpu.user_usec, g->run, "user", NULL);
        put_usec(l, METRIC_RUN_CPU, g->cpu.system_usec, g->run, "system", NULL);
        put_usec(l, METRIC_RUN_CPU_THROTTLED, g->cpu.throttled_usec, g->run, NULL, NULL);
        cgroup_memory(&g->files, l, &memory);
        put_if(l, METRIC_RUN_MEMORY, memory.current, g->run, NULL);
        put_if(l, METRIC_RUN_MEMORY_STATE, memory.anonymous, g->run, "anonymous");
        put_if(l, METRIC_RUN_MEMORY_STATE, memory.file, g->run, "file");
        put_if(l, METRIC_RUN_MEMORY_STATE, memory.kernel, g->run, "kernel");
        put_if(l, METRIC_RUN_OOM_KILLS, memory.oom_kills, g->run, NULL);
        put_if(l, METRIC_RUN_MAJOR_FAULTS, memory.major_faults, g->run, NULL);
        put_if(l, METRIC_RUN_REFAULTS, memory.refaults, g->run, NULL);
        put_if(l, METRIC_RUN_RECLAIMED, memory.reclaimed, g->run, NULL);
        put_if(l, METRIC_RUN_TASKS, cgroup_tasks(&g->files, l), g->run, NULL);
        put_if(l, METRIC_RUN_DISK_IO, g->io.read_bytes, g->run, "read");
        put_if(l, METRIC_RUN_DISK_IO, g->io.written_bytes, g->run, "write");
        for (enum pressure_resource p = PRESSURE_CPU; p <= PRESSURE_IO; p++) {
                int64_t some, full;

                cgroup_pressure(&g->files, p, l, &some, &full);
                put_usec(l, METRIC_RUN_PRESSURE, some, g->run, pressure_resource_name(p), "some");
                put_usec(l, METRIC_RUN_PRESSURE, full, g->run, pressure_resource_name(p), "full");
        }
}
