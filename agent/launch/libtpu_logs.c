/* SPDX-License-Identifier: Apache-2.0 */
#include "libtpu_logs.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "io.h"

#define HEADING_MAX 512u

static const struct {
        const char *part; /* of the name */
        size_t kept;      /* bytes of its end; INFO has the lines of all severities, in their order */
} severities[] = {
        [LIBTPU_FATAL] = { ".log.FATAL.", 8 * 1024 },
        [LIBTPU_ERROR] = { ".log.ERROR.", 12 * 1024 },
        [LIBTPU_WARNING] = { ".log.WARNING.", 12 * 1024 },
        [LIBTPU_INFO] = { ".log.INFO.", 24 * 1024 },
};

int libtpu_log_severity(const char *name, enum libtpu_severity *ret) {
        for (unsigned i = 0; i < ELEMENTSOF(severities); i++)
                if (strstr(name, severities[i].part)) {
                        *ret = (enum libtpu_severity) i;
                        return 0;
                }
        return -ENOENT;
}

static usec_t written_at(const struct stat *st) {
        return st->st_mtim.tv_sec <= 0 ? 0
                                       : (usec_t) st->st_mtim.tv_sec * USEC_PER_SEC +
                                                 (usec_t) st->st_mtim.tv_nsec / 1000;
}

static bool is_of_the_run(const struct libtpu_logs_of *of, const struct stat *st) {
        usec_t written = written_at(st);

        return S_ISREG(st->st_mode) && st->st_uid == of->uid && st->st_size > 0 &&
               written >= of->began_real && written <= of->ended_real + LIBTPU_LOGS_LATE;
}

void libtpu_logs_consider(struct libtpu_logs *l, const struct libtpu_logs_of *of, const char *name,
                          const struct stat *st) {
        enum libtpu_severity s;

        if (strlen(name) >= sizeof(l->newest[0].name) || libtpu_log_severity(name, &s) < 0 ||
            !is_of_the_run(of, st) ||
            (l->newest[s].name[0] && written_at(st) <= l->newest[s].written_real))
                return;
        (void) snprintf(l->newest[s].name, sizeof(l->newest[s].name), "%s", name);
        l->newest[s].written_real = written_at(st);
}

static void find_newest(DIR *d, const struct libtpu_logs_of *of, struct libtpu_logs *ret) {
        const struct dirent *e;
        enum libtpu_severity s;
        struct stat st;

        *ret = (struct libtpu_logs){ 0 };
        for (unsigned n = 0; n < LIBTPU_LOGS_LOOKED_AT && (e = readdir(d)); n++)
                if (libtpu_log_severity(e->d_name, &s) == 0 &&
                    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                        libtpu_logs_consider(ret, of, e->d_name, &st);
}

/* The end of a file, from the beginning of a line on. What became another file meanwhile is left out. */
static int write_end(int fd, int dir_fd, const struct libtpu_logs_of *of, const char *name, size_t max) {
        _cleanup_close_ int from = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        _cleanup_free_ char *text = malloc(max);
        char heading[HEADING_MAX], *line;
        struct stat st;
        ssize_t n;
        int r;

        if (!text)
                return -ENOMEM;
        if (from < 0 || fstat(from, &st) < 0 || !is_of_the_run(of, &st))
                return 0;
        if ((uint64_t) st.st_size > max && lseek(from, st.st_size - (off_t) max, SEEK_SET) < 0)
                return 0;
        n = io_read_up_to(from, text, max);
        if (n <= 0)
                return 0;
        line = (uint64_t) st.st_size > max ? memchr(text, '\n', (size_t) n) : NULL;
        line = line ? line + 1 : text;
        n -= line - text;
        (void) snprintf(heading, sizeof(heading), "%.255s, the last %zd of %lld bytes:\n", name, n,
                        (long long) st.st_size);
        r = io_write_all(fd, heading, strlen(heading));
        if (r == 0)
                r = io_write_all(fd, line, (size_t) n);
        return r == 0 && n > 0 && line[n - 1] != '\n' ? io_write_all(fd, "\n", 1) : r;
}

int libtpu_logs_write(int fd, const struct libtpu_logs_of *of) {
        int dir_fd = open(of->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
        _cleanup_closedir_ DIR *d = NULL;
        struct libtpu_logs found;

        r = io_directory(dir_fd < 0 ? -errno : dir_fd, &d);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        find_newest(d, of, &found);
        for (unsigned i = 0; r == 0 && i < ELEMENTSOF(severities); i++)
                if (found.newest[i].name[0])
                        r = write_end(fd, dirfd(d), of, found.newest[i].name, severities[i].kept);
        return r;
}
