/* SPDX-License-Identifier: Apache-2.0 */
#include "mapped_file.h"

#include "core_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#define COMPARED 1024u /* bytes at the start of a file: ELF header, segments and most often the build id */
#define DELETED " (deleted)"

/* --- The list ------------------------------------------------------------------------------------------ */

/* Reads hexadecimal digits and the character after them. */
static bool take_maps_number(const char **p, const char *end, char after, uint64_t *ret) {
        uint64_t v = 0;
        const char *start = *p;

        for (int digit; *p < end && (digit = hex_digit(**p)) >= 0; (*p)++) {
                if (v > UINT64_MAX >> 4)
                        return false;
                v = v << 4 | (unsigned) digit;
        }
        if (*p == start || *p == end || **p != after)
                return false;
        (*p)++;
        *ret = v;
        return true;
}

static bool take_off_deleted(char *path) {
        bool deleted = endswith(path, DELETED) && path[strlen(DELETED)];

        if (deleted)
                path[strlen(path) - strlen(DELETED)] = '\0';
        return deleted;
}

int maps_parse_line(const char *line, size_t len, struct mapping *ret) {
        const char *p = line, *end = line + len;
        uint64_t major, minor;
        size_t n;

        if (!take_maps_number(&p, end, '-', &ret->start) ||
            !take_maps_number(&p, end, ' ', &ret->end) || end - p < 5 || p[4] != ' ')
                return -EBADMSG;
        ret->executable = p[2] == 'x';
        ret->shared = p[3] == 's';
        p += 5; /* "r-xp " */
        if (!take_maps_number(&p, end, ' ', &ret->offset) ||
            !take_maps_number(&p, end, ':', &major) || !take_maps_number(&p, end, ' ', &minor))
                return -EBADMSG;
        ret->device = (uint32_t) (major << 20 | minor);
        ret->inode = 0;
        for (; p < end && *p >= '0' && *p <= '9'; p++)
                ret->inode = ret->inode * 10 + (uint64_t) (*p - '0');
        while (p < end && *p == ' ')
                p++;
        n = (size_t) (end - p);
        if (ret->end <= ret->start || n >= MAPS_PATH_MAX || memchr(p, '\0', n))
                return -EBADMSG;
        memcpy(ret->path, p, n);
        ret->path[n] = '\0';
        ret->deleted = take_off_deleted(ret->path);
        return 0;
}

/* Visits the whole lines of buf; *ret_used: how many bytes they were. */
static int visit_lines(const char *buf, size_t n, int (*visit)(const struct mapping *m, void *userdata),
                       void *userdata, size_t *ret_used) {
        struct mapping m;
        size_t used = 0;

        for (const char *end; used < n && (end = memchr(buf + used, '\n', n - used));) {
                size_t len = (size_t) (end - (buf + used));
                int r = maps_parse_line(buf + used, len, &m);

                used += len + 1;
                if (r == 0 && m.path[0] == '/')
                        r = visit(&m, userdata);
                if (r != 0 && r != -EBADMSG)
                        return r;
        }
        *ret_used = used;
        return 0;
}

int maps_read(int fd, int (*visit)(const struct mapping *m, void *userdata), void *userdata,
              bool *ret_empty) {
        char buf[32768];
        size_t n = 0, total = 0;

        for (;;) {
                ssize_t k = read(fd, buf + n, sizeof(buf) - n);
                size_t used;
                int r;

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return -errno;
                if (k == 0)
                        break;
                n += (size_t) k;
                total += (size_t) k;
                if (total > MAPS_BYTES_MAX)
                        return -E2BIG;
                r = visit_lines(buf, n, visit, userdata, &used);
                if (r != 0)
                        return r;
                memmove(buf, buf + used, n - used);
                n -= used;
                if (n == sizeof(buf))
                        n = 0; /* no line of maps is that long: drop it, the rest of it will not parse */
        }
        *ret_empty = total == 0;
        return 0;
}

int maps_visit(const struct process *p, int (*visit)(const struct mapping *m, void *userdata),
               void *userdata, bool *ret_empty) {
        _cleanup_close_ int fd = -1;

        if (p->core)
                return core_file_maps(p->core, visit, userdata, ret_empty);
        fd = openat(p->dir_fd, "maps", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        return maps_read(fd, visit, userdata, ret_empty);
}

/* --- The file behind a mapping ---------------------------------------------------------------------- */

void mapped_file_program(const struct process *p, char *buf, size_t size) {
        ssize_t n = readlinkat(p->dir_fd, "exe", buf, size - 1);

        buf[MAX(n, 0)] = '\0';
        (void) take_off_deleted(buf);
}

/*
 * Opens for reading what a handle (O_PATH) stands for, when it is an ordinary file: never a device or fifo.
 */
static int reopen_file(const struct process *p, int handle) {
        struct stat st;
        char path[64];
        int fd;

        if (handle < 0)
                return -errno;
        if (fstat(handle, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        (void) snprintf(path, sizeof(path), "../self/fd/%d", handle); /* the seam's own /proc */
        fd = openat(p->dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

static int open_link(const struct process *p, const char *name) {
        _cleanup_close_ int handle = openat(p->dir_fd, name, O_PATH | O_CLOEXEC);

        return reopen_file(p, handle);
}

/* The process's root is a host of its own: links in it are followed as the process would. */
static int open_below_root(const struct process *p, const char *path) {
        _cleanup_close_ int root = openat(p->dir_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC), handle = -1;
        const struct host inside = { .root_fd = root };

        if (root < 0)
                return -errno;
        handle = host_open_file(&inside, path, O_PATH);
        return handle < 0 ? handle : reopen_file(p, handle);
}

/*
 * Whether the file begins with what the process has mapped at the address. 0, -ESTALE when not, or -errno.
 */
static int check_same(int fd, struct memory *m, uint64_t address) {
        uint8_t file[COMPARED], mapped[COMPARED];
        ssize_t n = pread(fd, file, sizeof(file), 0);
        int r;

        if (n < 0)
                return -errno;
        if (n < 64)
                return -ENOEXEC;
        r = memory_read(m, address, mapped, (size_t) n);
        if (r < 0)
                return r;
        return memcmp(file, mapped, (size_t) n) == 0 ? 0 : -ESTALE;
}

int mapped_file_open(const struct process *p, struct memory *m, const struct mapping *map) {
        char name[64], exe[MAPS_PATH_MAX + 16];
        int r = -ENOENT;

        if (p->core)
                return core_file_open_mapped(p->core, map->start);
        (void) snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, map->start, map->end);
        for (unsigned way = 0; way < 3; way++) {
                _cleanup_close_ int fd = -1;

                if (way == 1) {
                        mapped_file_program(p, exe, sizeof(exe));
                        if (!streq(map->path, exe))
                                continue;
                }
                if (way == 2 && map->deleted)
                        continue;
                fd = way == 0   ? open_link(p, name)
                     : way == 1 ? open_link(p, "exe")
                                : open_below_root(p, map->path);
                r = fd < 0 ? fd : check_same(fd, m, map->start);
                if (r == 0)
                        return TAKE_FD(fd);
                if (r == -ESRCH)
                        break;
        }
        return r;
}
