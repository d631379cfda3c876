/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup.h"

#include <fcntl.h>

#include "io.h"

#define PATH_SIZE 1024

static int read_procs(int dir_fd, struct pid_list *out) {
        _cleanup_fclose_ FILE *f = NULL;
        int fd, pid;

        fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        f = fdopen(fd, "r");
        if (!f) {
                (void) close_fd(fd);
                return -ENOMEM;
        }
        while (out->n < ELEMENTSOF(out->pids) && fscanf(f, "%d", &pid) == 1)
                if (pid > 0) /* 0: a process of another pid namespace */
                        out->pids[out->n++] = pid;
        return 0;
}

static int walk_groups(int fd, unsigned depth, struct pid_list *out) {
        _cleanup_closedir_ DIR *d = NULL;
        const struct dirent *e;
        int r = io_directory(fd, &d);

        if (r == 0)
                r = read_procs(dirfd(d), out);
        if (r < 0)
                return r;
        while (depth < CGROUP_DEPTH_MAX && (e = readdir(d))) {
                int child;

                if (e->d_type != DT_DIR || streq(e->d_name, ".") || streq(e->d_name, ".."))
                        continue;
                child = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
                if (child >= 0)
                        (void) walk_groups(child, depth + 1, out); /* a group may vanish while we look */
        }
        return 0;
}

int cgroup_pids(const struct host *h, const char *control_group, struct pid_list *ret) {
        static const char *const bases[] = { "/sys/fs/cgroup/unified", "/sys/fs/cgroup",
                                             "/sys/fs/cgroup/systemd" };

        ret->n = 0;
        if (control_group[0] != '/')
                return -EINVAL;
        for (size_t i = 0; i < ELEMENTSOF(bases); i++) {
                _cleanup_free_ char *path = NULL;
                int fd;

                if (asprintf(&path, "%s%s", bases[i], control_group) < 0) {
                        path = NULL;
                        return -ENOMEM;
                }
                fd = host_open_file(h, path, O_RDONLY | O_DIRECTORY);
                if (fd >= 0)
                        return walk_groups(fd, 0, ret);
                if (fd != -ENOENT)
                        return fd;
        }
        return -ENOENT;
}

/* --- Killed for lack of memory ------------------------------------------------------------------------- */

/* "oom_kill N" in a file of such lines. */
static uint32_t read_count(const struct host *h, const char *base, const char *group, const char *file) {
        char path[PATH_SIZE + 128], text[1024];
        const char *at;

        (void) snprintf(path, sizeof(path), "%s%s/%s", base, group, file);
        if (host_read(h, path, text, sizeof(text), NULL) < 0)
                return 0;
        at = startswith(text, "oom_kill ") ? text : strstr(text, "\noom_kill ");
        return at ? (uint32_t) strtoul(strchr(at, ' '), NULL, 10) : 0;
}

/* Of our own line in /proc/self/cgroup that begins after a prefix: the group, cut behind the run's service.
 */
static bool own_group(const char *text, const char *prefix, char group[static PATH_SIZE]) {
        const char *line = strstr(text, prefix), *end;
        size_t n;

        if (!line)
                return false;
        line += strlen(prefix);
        end = strstr(line, ".service");
        n = end ? (size_t) (end - line) + strlen(".service") : strcspn(line, "\n");
        if (n >= PATH_SIZE || (end && memchr(line, '\n', n)))
                return false;
        memcpy(group, line, n);
        group[n] = '\0';
        return true;
}

uint32_t cgroup_oom_kills(const struct host *h) {
        char text[8192], group[PATH_SIZE];
        uint32_t n = 0;

        if (host_read(h, "/proc/self/cgroup", text, sizeof(text), NULL) < 0)
                return 0;
        if (own_group(text, "0::", group)) {
                n = read_count(h, "/sys/fs/cgroup", group, "memory.events");
                if (n == 0)
                        n = read_count(h, "/sys/fs/cgroup/unified", group, "memory.events");
        }
        if (n == 0 && own_group(text, ":memory:", group))
                n = read_count(h, "/sys/fs/cgroup/memory", group, "memory.oom_control");
        return n;
}
