/* SPDX-License-Identifier: Apache-2.0 */
#include "core_find.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"
#include "texts.h"

#define LOOK         (200 * USEC_PER_MSEC)
#define LOOKED_AT    16384u /* names of a folder */
#define BY_SYSTEMD   "systemd-coredump"

/* "%p" and the like of the name as what they stand for, or as '*'; signs of fnmatch() as themselves. */
static void expand_name(const struct core_wanted *w, const char *pattern, char *buf, size_t size) {
        for (const char *p = pattern; *p; p++)
                if (*p != '%')
                        text_append(buf, size, "", "%s%c", strchr("*?[\\", *p) ? "\\" : "", *p);
                else if (*++p == 'p' || *p == 'P')
                        text_append(buf, size, "", "%d", (int) w->pid);
                else if (*p == 'u')
                        text_append(buf, size, "", "%u", (unsigned) w->uid);
                else if (*p)
                        text_append(buf, size, "", "%s", *p == '%' ? "%" : "*");
                else
                        break;
}

int core_place(const struct core_wanted *w, char folder[static CORE_PATH_MAX],
               char name[static CORE_PATH_MAX]) {
        const char *slash = strrchr(w->pattern, '/');

        name[0] = '\0';
        if (w->pattern[0] == '|') { /* its names: core.COMMAND.UID.BOOT.PID.TIME */
                if (!strstr(w->pattern, BY_SYSTEMD))
                        return -ENOTSUP;
                (void) snprintf(folder, CORE_PATH_MAX, "%s", CORE_KEPT_BY_SYSTEMD);
                (void) snprintf(name, CORE_PATH_MAX, "core.*.%u.*.%d.*", (unsigned) w->uid, (int) w->pid);
                return 0;
        }
        if (slash && memchr(w->pattern, '%', (size_t) (slash - w->pattern)))
                return -ENOTSUP;
        if (snprintf(folder, CORE_PATH_MAX, "%s%s%.*s", w->pattern[0] == '/' ? "" : w->folder,
                     w->pattern[0] == '/' || !slash ? "" : "/", slash ? (int) (slash - w->pattern) : 0,
                     w->pattern) >= CORE_PATH_MAX)
                return -ENAMETOOLONG;
        expand_name(w, slash ? slash + 1 : w->pattern, name, CORE_PATH_MAX);
        return 0;
}

/* core_uses_pid puts ".PID" behind a name that has no process in it. */
static bool is_core(const struct core_wanted *w, const char *like, const char *name) {
        char with_pid[CORE_PATH_MAX + 16];

        (void) snprintf(with_pid, sizeof(with_pid), "%s.%d", like, (int) w->pid);
        return fnmatch(like, name, FNM_PERIOD) == 0 || fnmatch(with_pid, name, FNM_PERIOD) == 0;
}

/* 1: it was found, and is written. */
static int look(int fd, const struct core_wanted *w, const char *folder, const char *like) {
        char path[2 * CORE_PATH_MAX];
        _cleanup_closedir_ DIR *d = NULL;
        const struct dirent *e;
        struct stat st;
        int r;

        (void) snprintf(path, sizeof(path), "%s%s", w->root, folder[0] ? folder : "/");
        r = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = io_directory(r < 0 ? -errno : r, &d);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (unsigned n = 0; n < LOOKED_AT && (e = readdir(d)); n++)
                if (is_core(w, like, e->d_name) &&
                    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
                    (usec_t) MAX(st.st_mtim.tv_sec + 1, 0) * USEC_PER_SEC >= w->began_real) {
                        (void) snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
                        r = io_write_all(fd, path, strlen(path));
                        return r < 0 ? r : 1;
                }
        return 0;
}

int core_find(int fd, const void *data) {
        const struct core_wanted *w = data;
        char folder[CORE_PATH_MAX], like[CORE_PATH_MAX];
        int r = core_place(w, folder, like);

        if (r < 0)
                return r;
        for (usec_t waited = 0; r == 0; waited += LOOK) {
                r = look(fd, w, folder, like);
                if (r != 0 || w->pattern[0] != '|' || waited >= CORE_FIND_WAIT)
                        break;
                (void) usleep((useconds_t) LOOK);
        }
        return MIN(r, 0);
}
