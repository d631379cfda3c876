/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "host_stat.h"
#include "open_folder.h"

/* --- The path ---------------------------------------------------------------------------------------- */

int open_folder(const struct host *h, const char *path, int *ret_fd, char *ret_missing, size_t size) {
        _cleanup_close_ int at = -1;
        char copy[OPEN_FOLDER_PATH_MAX], *part, *rest = copy;

        if (path[0] != '/' || snprintf(copy, sizeof(copy), "%s", path) >= (int) sizeof(copy))
                return -EINVAL;
        at = openat(h->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (at < 0)
                return -errno;
        while ((part = strsep(&rest, "/"))) {
                int next;

                if (!*part)
                        continue;
                if (streq(part, ".") || streq(part, ".."))
                        return -EINVAL;
                next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
                if (next < 0 && errno == ENOENT) {
                        (void) snprintf(ret_missing, size, "%s", part);
                        *ret_fd = TAKE_FD(at);
                        return -ENOENT;
                }
                if (next < 0)
                        return -errno;
                (void) close_fd(at);
                at = next;
        }
        *ret_fd = TAKE_FD(at);
        return 0;
}

/* --- Its file system --------------------------------------------------------------------------------- */

static bool is_within(const char *path, const char *point) {
        size_t n = strlen(point);

        while (n > 0 && point[n - 1] == '/')
                n--;
        return strncmp(path, point, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static bool type_is_local(const char *type) {
        static const char *const local[] = { "tmpfs", "ext2", "ext3", "ext4",    "xfs",
                                             "btrfs", "f2fs", "zfs",  "overlay", "rootfs" };

        for (size_t i = 0; i < ELEMENTSOF(local); i++)
                if (streq(type, local[i]))
                        return true;
        return false;
}

struct nearest {
        const char *path;
        size_t longest;
        bool local;
};

static bool on_mount(const struct mount_entry *m, void *userdata) {
        struct nearest *n = userdata;

        if (is_within(n->path, m->point) && strlen(m->point) >= n->longest) {
                n->longest = strlen(m->point);
                n->local = type_is_local(m->type);
        }
        return true;
}

/* The last mount whose point is the longest is what lies there. */
bool folder_is_local(const struct host *h, const char *path) {
        struct nearest n = { .path = path, .local = true };

        (void) mountinfo_visit(h, on_mount, &n); /* unreadable: not known */
        return n.local;
}
