/* SPDX-License-Identifier: Apache-2.0 */
#include "direct_group.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "paths.h"

#define BASE "/sys/fs/cgroup"
#define PATH_SIZE 1024
#define GROUP_NAME_MAX 64

bool direct_group_is_needed(const struct run_spec *s) {
        return s->memory_max != SPEC_UNLIMITED || run_spec_limits_slice(s);
}

static int path_of(char buf[static PATH_SIZE], const char *parent, const char *name, const char *file) {
        int n = snprintf(buf, PATH_SIZE, "%s" RUN_UNIT_PREFIX "%s%s", parent, name, file);

        return n < 0 || n >= PATH_SIZE ? -ENAMETOOLONG : 0;
}

/* One word of a file of words. */
static bool has_word(const struct host *h, const char *dir, const char *file, const char *word) {
        char path[PATH_SIZE + 32], text[1024], *save = NULL;

        (void) snprintf(path, sizeof(path), "%s%s", dir, file);
        if (host_read(h, path, text, sizeof(text), NULL) < 0)
                return false;
        for (const char *w = strtok_r(text, " \n", &save); w; w = strtok_r(NULL, " \n", &save))
                if (streq(w, word))
                        return true;
        return false;
}

/* Our own group, with '/' at its end. -EOPNOTSUPP: the machine has no v2 tree, or we are outside of what we
 * see of it. */
static int own_group(const struct host *h, char dir[static PATH_SIZE]) {
        char text[8192];
        const char *line;
        size_t n;

        if (host_read(h, "/proc/self/cgroup", text, sizeof(text), NULL) < 0 ||
            !(line = strstr(text, "0::/")))
                return -EOPNOTSUPP;
        line += strlen("0::");
        n = strcspn(line, "\n");
        if (n + sizeof(BASE) + 2 > PATH_SIZE || strstr(text, "/.."))
                return -EOPNOTSUPP;
        (void) snprintf(dir, PATH_SIZE, BASE "%.*s%s", (int) n, line, line[n - 1] == '/' ? "" : "/");
        return 0;
}

static bool divides_memory(const struct host *h, const char *dir) {
        char path[PATH_SIZE + 32];

        if (has_word(h, dir, "cgroup.subtree_control", "memory"))
                return true;
        (void) snprintf(path, sizeof(path), "%scgroup.subtree_control", dir);
        /* refused where the group has processes of its own, or is not ours to change */
        return has_word(h, dir, "cgroup.controllers", "memory") && host_write(h, path, "+memory") == 0;
}

/* Below which group that of a run is made. */
static int find_parent(const struct host *h, char dir[static PATH_SIZE]) {
        char *slash;
        int r = own_group(h, dir);

        if (r < 0 || divides_memory(h, dir))
                return r;
        if (streq(dir, BASE "/"))
                return -EOPNOTSUPP;
        dir[strlen(dir) - 1] = '\0';
        slash = strrchr(dir, '/');
        slash[1] = '\0';
        return divides_memory(h, dir) ? 0 : -EOPNOTSUPP;
}

static int set(const struct host *h, const char *parent, const char *name, const char *file,
               uint64_t bytes) {
        char path[PATH_SIZE], text[24];
        int r = path_of(path, parent, name, file);

        if (bytes == SPEC_UNLIMITED)
                (void) snprintf(text, sizeof(text), "max");
        else
                (void) snprintf(text, sizeof(text), "%" PRIu64, bytes);
        return r < 0 ? r : host_write(h, path, text);
}

static int make(const struct host *h, const char *parent, const char *name, const struct run_spec *s) {
        char group[GROUP_NAME_MAX];
        _cleanup_close_ int dir = host_open_file(h, parent, O_RDONLY | O_DIRECTORY);
        int r;

        if (dir < 0)
                return dir;
        (void) snprintf(group, sizeof(group), RUN_UNIT_PREFIX "%.41s", name);
        if (mkdirat(dir, group, 0755) < 0 && errno != EEXIST)
                return -errno;
        r = set(h, parent, name, "/memory.max", MIN(s->memory_max, s->memory_total));
        return r < 0 ? r : set(h, parent, name, "/memory.high", s->memory_high);
}

int direct_group_make(const struct host *h, const char *name, const struct run_spec *s,
                      char why[static GROUP_WHY_MAX]) {
        char parent[PATH_SIZE];
        int r = find_parent(h, parent);

        if (r < 0) {
                (void) snprintf(why, GROUP_WHY_MAX,
                                "no group of cgroup v2 is there in which memory may be divided");
                return -EOPNOTSUPP;
        }
        r = make(h, parent, name, s);
        if (r == 0)
                return 0;
        (void) snprintf(why, GROUP_WHY_MAX, "%.64s" RUN_UNIT_PREFIX "%.41s: %.32s", parent, name,
                        strerror(-r));
        return -EOPNOTSUPP;
}

int direct_group_enter(const struct host *h, const char *name) {
        char parent[PATH_SIZE], path[PATH_SIZE];
        int r = find_parent(h, parent);

        r = r < 0 ? r : path_of(path, parent, name, "/cgroup.procs");
        return r < 0 ? r : host_write(h, path, "0"); /* the writing process */
}

uint32_t direct_group_end(const struct host *h, const char *name) {
        char parent[PATH_SIZE], path[PATH_SIZE], text[1024], group[GROUP_NAME_MAX];
        _cleanup_close_ int dir = -1;
        const char *at = NULL;

        if (find_parent(h, parent) < 0 || path_of(path, parent, name, "/memory.events") < 0)
                return 0;
        if (host_read(h, path, text, sizeof(text), NULL) >= 0)
                at = strstr(text, "oom_kill ");
        dir = host_open_file(h, parent, O_RDONLY | O_DIRECTORY);
        (void) snprintf(group, sizeof(group), RUN_UNIT_PREFIX "%.41s", name);
        if (dir >= 0) /* one that stays, for a process in state D is in it, is used again */
                (void) unlinkat(dir, group, AT_REMOVEDIR);
        return at ? (uint32_t) strtoul(at + strlen("oom_kill "), NULL, 10) : 0;
}
