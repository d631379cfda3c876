/* SPDX-License-Identifier: Apache-2.0 */
#include "mounts.h"

#include <fcntl.h>

#include "grow.h"
#include "host_stat.h"

/* File systems behind which somebody else answers (filesystems(5)). */
static bool is_remote(const char *type) {
        static const char *const types[] = { "fuse", "nfs",  "9p",  "cifs",   "smb",  "ceph",    "lustre",
                                             "gfs",  "ocfs", "afs", "beegfs", "gpfs", "virtiofs" };

        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (startswith(type, types[i]))
                        return true;
        return false;
}

static int add_mount(struct mounts *m, const char *line) {
        struct mount_entry e;
        struct mount *to;
        int r;

        if (!mountinfo_parse(line, &e))
                return 0;
        r = grow(&m->items, &m->size, m->n + 1, sizeof(*m->items));
        if (r < 0)
                return r;
        to = &m->items[m->n++];
        *to = (struct mount){ .id = (uint32_t) strtoul(line, NULL, 10),
                              .device = e.device,
                              .point = (unsigned) strlen(e.type) + 1,
                              .remote = is_remote(e.type) };
        (void) snprintf(to->words, sizeof(to->words), "%s %s", e.type, e.point);
        return 0;
}

int mounts_read(const struct process *p, struct mounts *ret) {
        int fd = openat(p->dir_fd, "mountinfo", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        _cleanup_fclose_ FILE *f = fd >= 0 ? fdopen(fd, "re") : NULL;
        char line[4096];
        int r = 0;

        if (!f) {
                r = fd < 0 ? -errno : -ENOMEM;
                (void) close_fd(fd);
                return r;
        }
        while (r == 0 && ret->n < MOUNTS_MAX && fgets(line, sizeof(line), f))
                if (strchr(line, '\n'))
                        r = add_mount(ret, line);
        return r;
}

void mounts_clear(struct mounts *m) {
        free(m->items);
        *m = (struct mounts){ 0 };
}

const struct mount *mounts_find(const struct mounts *m, uint32_t id) {
        for (size_t i = 0; m && i < m->n && id != 0; i++)
                if (m->items[i].id == id)
                        return &m->items[i];
        return NULL;
}

/* Later ones lie over earlier ones. */
const struct mount *mounts_of_path(const struct mounts *m, const char *path) {
        const struct mount *best = NULL;
        size_t longest = 0;

        for (size_t i = 0; i < m->n; i++) {
                const char *point = m->items[i].words + m->items[i].point;
                size_t n = streq(point, "/") ? 0 : strlen(point);

                if (strncmp(path, point, n) == 0 && (path[n] == '/' || path[n] == '\0') && n >= longest) {
                        best = &m->items[i];
                        longest = n;
                }
        }
        return best;
}
