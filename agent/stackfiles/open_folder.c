/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "open_folder.h"

#define LINE_SIZE 1024

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

/* Moves over n words and the blanks behind them. */
static const char *skip_words(const char *p, unsigned n) {
        while (n-- > 0) {
                p += strcspn(p, " \n");
                p += strspn(p, " ");
        }
        return p;
}

static bool take_word(const char *p, char *to, size_t size) {
        size_t n = strcspn(p, " \n");

        if (n == 0 || n >= size)
                return false;
        memcpy(to, p, n);
        to[n] = '\0';
        return true;
}

bool mountinfo_parse(const char *line, char *point, size_t size, char type[static 32]) {
        const char *dash = strstr(line, " - ");

        /* mount id, parent, device, root, point */
        return dash && take_word(skip_words(line, 4), point, size) && take_word(dash + 3, type, 32);
}

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

/* The last mount whose point is the longest is what lies there. */
bool folder_is_local(const struct host *h, const char *path) {
        int fd = host_open_file(h, "/proc/self/mountinfo", O_RDONLY);
        _cleanup_fclose_ FILE *f = fd >= 0 ? fdopen(fd, "re") : NULL;
        char line[LINE_SIZE], point[OPEN_FOLDER_PATH_MAX], type[32];
        size_t longest = 0;
        bool local = true;

        if (!f) {
                (void) close_fd(fd);
                return true;
        }
        while (fgets(line, sizeof(line), f))
                if (mountinfo_parse(line, point, sizeof(point), type) && is_within(path, point) &&
                    strlen(point) >= longest) {
                        longest = strlen(point);
                        local = type_is_local(type);
                }
        return local;
}
