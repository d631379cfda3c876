/* SPDX-License-Identifier: Apache-2.0 */
#include "targets.h"

#include <fcntl.h>

#define PROCS_MAX (64u * 1024)

void targets_clear(struct targets *t) {
        free(t->pids);
        *t = (struct targets) { 0 };
}

int targets_add(struct targets *t, pid_t pid) {
        if (!t->pids)
                t->pids = calloc(TARGETS_MAX, sizeof(*t->pids));
        if (!t->pids)
                return -ENOMEM;
        for (size_t i = 0; i < t->n; i++)
                if (t->pids[i] == pid)
                        return 0;
        if (t->n == TARGETS_MAX)
                t->full = true;
        else
                t->pids[t->n++] = pid;
        return 0;
}

/* cgroup.procs: a number a line; 0 is a process that our own pid namespace does not show. */
static int add_group(struct targets *t, const struct host *h, const char *dir) {
        _cleanup_free_ char *text = malloc(PROCS_MAX);
        char path[TARGET_PATH_MAX + 32], *end;
        size_t len;
        int r;

        if (!text)
                return -ENOMEM;
        (void) snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
        r = host_read(h, path, text, PROCS_MAX, &len);
        for (char *at = text; r >= 0 && *at; at = end) {
                long pid = strtol(at, &end, 10);

                if (end == at)
                        break;
                if (pid > 0 && pid <= INT32_MAX)
                        r = targets_add(t, (pid_t) pid);
        }
        return MIN(r, 0);
}

/* Groups found and not yet looked into: paths behind one another. */
struct groups {
        const struct host *host;
        const char *dir; /* the one whose entries are visited */
        char *paths[TARGET_GROUPS_MAX];
        size_t n;
};

static void groups_clear(struct groups *g) {
        for (size_t i = 0; i < g->n; i++)
                free(g->paths[i]);
}

static int add_subgroup(const char *name, void *userdata) {
        struct groups *g = userdata;
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -1;

        if (g->n == TARGET_GROUPS_MAX || name[0] == '.' ||
            strlen(g->dir) + strlen(name) + 2 > TARGET_PATH_MAX)
                return 0;
        if (asprintf(&path, "%s/%s", g->dir, name) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        fd = host_open_file(g->host, path, O_PATH | O_DIRECTORY);
        if (fd >= 0)
                g->paths[g->n++] = TAKE_PTR(path);
        return 0;
}

/* The directory that group stands for. */
static int find_group_directory(const struct host *h, const char *group, char buf[static TARGET_PATH_MAX]) {
        static const char *const places[] = { "", "/sys/fs/cgroup/unified", "/sys/fs/cgroup",
                                              "/sys/fs/cgroup/systemd" };

        for (size_t i = startswith(group, "/sys/fs/cgroup") ? 0 : 1; i < ELEMENTSOF(places); i++) {
                char path[TARGET_PATH_MAX + 32];
                _cleanup_close_ int fd = -1;

                if (snprintf(buf, TARGET_PATH_MAX, "%s%s%s", places[i], group[0] == '/' ? "" : "/", group) >=
                    (int) TARGET_PATH_MAX)
                        return -ENAMETOOLONG;
                (void) snprintf(path, sizeof(path), "%s/cgroup.procs", buf);
                fd = host_open_file(h, path, O_RDONLY);
                if (fd >= 0 || fd != -ENOENT)
                        return MIN(fd, 0);
        }
        return -ENOENT;
}

int targets_add_cgroup(struct targets *t, const struct host *h, const char *group) {
        _cleanup_(groups_clear) struct groups g = { .host = h };
        char dir[TARGET_PATH_MAX];
        int r = find_group_directory(h, group, dir);

        if (r < 0)
                return r;
        g.paths[0] = strdup(dir);
        if (!g.paths[0])
                return -ENOMEM;
        g.n = 1;
        for (size_t i = 0; i < g.n; i++) {
                r = add_group(t, h, g.paths[i]);
                if (r < 0 && i == 0)
                        return r; /* one below may have ended meanwhile */
                g.dir = g.paths[i];
                r = host_list(h, g.dir, add_subgroup, &g);
                if (r == -ENOMEM)
                        return r;
        }
        return 0;
}

static int add_child(pid_t pid, void *userdata) {
        return targets_add(userdata, pid);
}

int targets_add_children(struct targets *t, const struct host *h) {
        for (size_t i = 0; i < t->n; i++) {
                _cleanup_process_ struct process parent = PROCESS_NULL;

                if (process_open(h, t->pids[i], &parent) < 0)
                        continue; /* said when it is read, or ended */
                if (process_children(&parent, add_child, t) == -ENOMEM)
                        return -ENOMEM;
        }
        return 0;
}
