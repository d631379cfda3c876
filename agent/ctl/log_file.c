/* SPDX-License-Identifier: Apache-2.0 */
#include "log_file.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "ctl.h"
#include "host.h"
#include "paths.h"
#include "table.h"

#define CHUNK 65536

struct log_file {
        struct host host;
        char path[160];
        int fd, notify, watch;
        off_t at;
};

static void log_file_clear(struct log_file *l) {
        l->fd = close_fd(l->fd);
        l->notify = close_fd(l->notify);
        host_close(&l->host);
}

static int open_at(struct log_file *l, const char *root, const char *name) {
        int r = host_open(root, &l->host);

        (void) snprintf(l->path, sizeof(l->path), PATH_LAUNCHD_STATE "/logs/%s", name);
        l->fd = r < 0 ? r : host_open_file(&l->host, l->path, O_RDONLY | O_NOFOLLOW);
        return l->fd < 0 ? l->fd : 0;
}

bool log_file_exists(const char *root, const char *name) {
        _cleanup_(log_file_clear) struct log_file l = { .host = HOST_NULL, .fd = -1, .notify = -1 };
        int r = open_at(&l, root, name);

        return r == 0 || r == -EACCES;
}

/* Behind the hole that the oldest lines have left, and the half of a line behind that. */
static off_t first_line(int fd) {
        off_t start = lseek(fd, 0, SEEK_DATA);
        char buf[4096];
        const char *feed;
        ssize_t n;

        if (start <= 0)
                return start < 0 ? lseek(fd, 0, SEEK_END) : 0;
        n = pread(fd, buf, sizeof(buf), start);
        feed = n > 0 ? memchr(buf, '\n', (size_t) n) : NULL;
        return feed ? start + (feed - buf) + 1 : start;
}

/* Where the newest lines begin: backwards from the end, at most to first. */
static off_t newest(int fd, off_t first, uint64_t lines) {
        off_t end = lseek(fd, 0, SEEK_END), at = end;
        char buf[CHUNK];

        while (at > first) {
                size_t want = (size_t) MIN(at - first, (off_t) sizeof(buf));
                ssize_t n = pread(fd, buf, want, at - (off_t) want);

                if (n != (ssize_t) want)
                        return first;
                for (size_t i = want; i > 0; i--)
                        if (buf[i - 1] == '\n' && at - (off_t) want + (off_t) i != end && lines-- == 1)
                                return at - (off_t) want + (off_t) i;
                at -= (off_t) want;
        }
        return first;
}

/* All that is there now. */
static int print_rest(struct log_file *l) {
        char buf[CHUNK + 1];
        ssize_t n;

        while ((n = pread(l->fd, buf, CHUNK, l->at)) > 0) {
                for (ssize_t i = 0; i < n; i++)
                        if (buf[i] == '\0')
                                buf[i] = ' ';
                buf[n] = '\0';
                print_clean(stdout, buf, true);
                l->at += n;
        }
        if (n < 0)
                return -errno;
        return fflush(stdout) == EOF ? -EIO : 0;
}

/* Of the file that is open, whatever its name becomes. */
static int watch(struct log_file *l) {
        char path[40];

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", l->fd);
        if (l->notify < 0)
                l->notify = inotify_init1(IN_CLOEXEC);
        l->watch = l->notify < 0 ? -1 : inotify_add_watch(l->notify, path, IN_MODIFY | IN_ATTRIB);
        return l->watch < 0 ? -errno : 0;
}

/* The run was started again: its new file, from its beginning. 0 as well when there is none yet. */
static int take_next(struct log_file *l) {
        struct stat st;
        int fd;

        if (fstat(l->fd, &st) < 0)
                return -errno;
        if (st.st_nlink > 0)
                return 0;
        fd = host_open_file(&l->host, l->path, O_RDONLY | O_NOFOLLOW);
        if (fd < 0)
                return fd == -ENOENT ? -ECANCELED : fd;
        (void) inotify_rm_watch(l->notify, l->watch); /* it went with the file */
        (void) close_fd(l->fd);
        l->fd = fd;
        l->at = 0;
        return watch(l);
}

static int follow_on(struct log_file *l) {
        char events[4096] __attribute__((aligned(8)));
        int r = watch(l);

        while (r >= 0) {
                r = print_rest(l);
                if (r >= 0)
                        r = take_next(l);
                if (r == 0)
                        r = print_rest(l); /* of the new one, before anything is waited for */
                if (r >= 0 && read(l->notify, events, sizeof(events)) < 0 && errno != EINTR)
                        r = -errno;
        }
        return r;
}

int log_file_show(const char *root, const char *name, uint64_t lines, bool follow) {
        _cleanup_(log_file_clear) struct log_file l = { .host = HOST_NULL, .fd = -1, .notify = -1 };
        off_t first;
        int r = open_at(&l, root, name);

        if (r >= 0) {
                first = first_line(l.fd);
                l.at = lines == UINT64_MAX ? first
                       : lines == 0        ? lseek(l.fd, 0, SEEK_END)
                                           : newest(l.fd, first, lines);
                r = follow ? follow_on(&l) : print_rest(&l);
        }
        if (r == -EACCES)
                fprintf(stderr, "tpuctl logs: the lines of run %s are for its user and root\n", name);
        else if (r < 0 && r != -ECANCELED) /* it is forgotten, and its file with it */
                fprintf(stderr, "tpuctl logs: %s: %s\n", l.path, strerror(-r));
        return r < 0 && r != -ECANCELED ? EXIT_NO_ANSWER : 0;
}
