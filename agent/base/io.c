/* SPDX-License-Identifier: Apache-2.0 */
#include "io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

ssize_t io_read_up_to(int fd, void *buf, size_t size) {
        uint8_t *p = buf;
        size_t n = 0;

        while (n < size) {
                ssize_t k = read(fd, p + n, size - n);

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return -errno;
                if (k == 0)
                        break;
                n += (size_t) k;
        }
        return (ssize_t) n;
}

int io_read_whole(int fd, size_t max, char **ret, size_t *ret_len) {
        _cleanup_free_ char *buf = NULL;
        struct stat st;
        size_t size;
        ssize_t n;

        if (fstat(fd, &st) < 0)
                return -errno;
        size = S_ISREG(st.st_mode) ? (size_t) st.st_size : max + 1;
        if (S_ISREG(st.st_mode) && size > max)
                return -E2BIG;
        buf = malloc(size + 1);
        n = buf ? io_read_up_to(fd, buf, size) : -ENOMEM;
        if (n < 0 || (size_t) n > max)
                return n < 0 ? (int) n : -E2BIG;
        buf[n] = '\0';
        *ret = TAKE_PTR(buf);
        *ret_len = (size_t) n;
        return 0;
}

bool io_was_last(size_t n, size_t asked) {
        return n == 0 || (n < asked && n < 2048);
}

int io_directory(int fd, DIR **ret) {
        int r;

        if (fd < 0)
                return fd;
        *ret = fdopendir(fd);
        r = *ret ? 0 : -errno;
        if (r < 0)
                (void) close_fd(fd);
        return r;
}

int io_write_all(int fd, const void *data, size_t len) {
        const uint8_t *p = data;

        while (len > 0) {
                ssize_t n = write(fd, p, len);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                p += n;
                len -= (size_t) n;
        }
        return 0;
}

void io_close_others(int keep) {
#ifdef __NR_close_range /* of the kernel: the C library of Debian 11 has no SYS_close_range */
        if (keep > 3)
                (void) syscall(__NR_close_range, 3U, (unsigned) keep - 1, 0U);
        (void) syscall(__NR_close_range, (unsigned) MAX(keep + 1, 3), ~0U, 0U);
#else
        (void) keep;
#endif
}

/* --- Either the old or the new content ---------------------------------------------------------------- */

/* Always a file of our own: what lies there may be a fifo, or a second name of another's file. */
static int write_all(int dir_fd, const char *name, const struct iovec parts[], size_t n,
                     const struct durable_options *o) {
        _cleanup_close_ int fd = -1;

        (void) unlinkat(dir_fd, name, 0); /* there may be none; what cannot be removed is said next */
        fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, o->mode);
        if (fd < 0)
                return -errno;
        for (size_t i = 0; i < n; i++) {
                int r = io_write_all(fd, parts[i].iov_base, parts[i].iov_len);

                if (r < 0)
                        return r;
        }
        return !o->lazy && fdatasync(fd) < 0 ? -errno : 0;
}

int durable_write_parts(int dir_fd, const char *name, const struct iovec parts[], size_t n_parts,
                        const struct durable_options *o) {
        char temporary[300];
        int r, n;

        if (!name[0] || strchr(name, '/'))
                return -EINVAL;
        n = snprintf(temporary, sizeof(temporary), ".%s.new", name);
        if (n < 0 || (size_t) n >= sizeof(temporary))
                return -ENAMETOOLONG;
        r = write_all(dir_fd, temporary, parts, n_parts, o);
        if (r == 0 && renameat(dir_fd, temporary, dir_fd, name) < 0)
                r = -errno;
        if (r < 0) {
                (void) unlinkat(dir_fd, temporary, 0); /* a left-over is overwritten by the next write */
                return r;
        }
        return !o->lazy && fsync(dir_fd) < 0 ? -errno : 0;
}

int durable_write(int dir_fd, const char *name, const void *data, size_t len, mode_t mode) {
        const struct iovec part = { .iov_base = (void *) (uintptr_t) data, .iov_len = len };

        return durable_write_parts(dir_fd, name, &part, 1, &(struct durable_options){ .mode = mode });
}

int durable_read(int dir_fd, const char *name, size_t max, char **ret, size_t *ret_len) {
        _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        return S_ISREG(st.st_mode) ? io_read_whole(fd, max, ret, ret_len) : -EINVAL;
}
