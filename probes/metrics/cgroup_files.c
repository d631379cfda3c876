/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#define MISSING (-1)
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
                int fd = host_open_file(h, layouts[i].file, O_PATH);

                close_fd(fd);
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

static void path_of(const struct cgroup_files *c, enum cgroup_file f,
                    char path[static CGROUP_PATH_MAX + 24]) {
        (void) snprintf(path, CGROUP_PATH_MAX + 24, "%s/%s", c->path, names[f]);
}

struct field {
        const char *key;
        int64_t *value;
};

/* A file of lines "key number". */
static void read_fields(struct cgroup_files *c, enum cgroup_file f, const struct look *l,
                        const struct field *fields, size_t n) {
        char path[CGROUP_PATH_MAX + 24];

        for (size_t i = 0; i < n; i++)
                *fields[i].value = MISSING;
        path_of(c, f, path);
        if (lines_begin(l->lines, &c->files[f], l->host, path) < 0)
                return;
        for (char *line; (line = lines_next(l->lines));) {
                const char *p = line, *key;
                int64_t value;
                size_t len;

                key = take_word(&p, &len);
                if (!key || !take_number(&p, &value) || *p)
                        continue;
                for (size_t i = 0; i < n; i++)
                        if (word_is(key, len, fields[i].key))
                                *fields[i].value = value;
        }
}

static int64_t read_number(struct cgroup_files *c, enum cgroup_file f, const struct look *l) {
        char path[CGROUP_PATH_MAX + 24], text[64];
        const char *p = text;
        int64_t v;

        path_of(c, f, path);
        if (source_read(&c->files[f], l->host, path, text, sizeof(text)) < 0 || !take_number(&p, &v) ||
            (*p != 0 && *p != '\n'))
                return MISSING;
        return v;
}

void cgroup_cpu(struct cgroup_files *c, const struct look *l, struct cgroup_cpu *ret) {
        const struct field fields[] = { { "user_usec", &ret->user_usec },
                                        { "system_usec", &ret->system_usec },
                                        { "throttled_usec", &ret->throttled_usec } };

        read_fields(c, CGROUP_CPU_STAT, l, fields, ELEMENTSOF(fields));
}

int64_t cgroup_memory_current(struct cgroup_files *c, const struct look *l) {
        return read_number(c, CGROUP_MEMORY_CURRENT, l);
}

void cgroup_memory(struct cgroup_files *c, const struct look *l, struct cgroup_memory *ret) {
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

int64_t cgroup_tasks(struct cgroup_files *c, const struct look *l) {
        return read_number(c, CGROUP_PIDS_CURRENT, l);
}

/* "8:0 rbytes=1 wbytes=2 rios=…", a line a disk. */
void cgroup_io(struct cgroup_files *c, const struct look *l, struct cgroup_io *ret) {
        char path[CGROUP_PATH_MAX + 24];

        *ret = (struct cgroup_io){ MISSING, MISSING };
        path_of(c, CGROUP_IO_STAT, path);
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

void cgroup_pressure(struct cgroup_files *c, enum pressure_resource r, const struct look *l,
                     int64_t *ret_some, int64_t *ret_full) {
        enum cgroup_file f = r == PRESSURE_CPU      ? CGROUP_CPU_PRESSURE
                             : r == PRESSURE_MEMORY ? CGROUP_MEMORY_PRESSURE
                                                    : CGROUP_IO_PRESSURE;
        char path[CGROUP_PATH_MAX + 24], text[512];

        *ret_some = *ret_full = MISSING;
        path_of(c, f, path);
        if (source_read(&c->files[f], l->host, path, text, sizeof(text)) < 0)
                return;
        if (!pressure_total(text, "some", ret_some))
                *ret_some = MISSING;
        if (!pressure_total(text, "full", ret_full))
                *ret_full = MISSING;
}
