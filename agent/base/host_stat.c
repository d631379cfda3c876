/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>

#include "host_stat.h"

#define TABLE_MAX (16 * 1024)

/* The rest of the line of table that begins with path, into line. -ENODATA: there is none. */
static int answer_of(const struct host *h, const char *table, const char *path, char *line, size_t size) {
        _cleanup_free_ char *text = malloc(TABLE_MAX);
        size_t n = strlen(path), len;
        const char *p;
        int r;

        if (!text)
                return -ENOMEM;
        r = host_read(h, table, text, TABLE_MAX, NULL);
        if (r < 0)
                return r == -ENOENT ? -ENODATA : r;
        for (p = text; strncmp(p, path, n) != 0 || (n > 0 && p[n] != ' '); p++) {
                p = strchr(p, '\n');
                if (!p)
                        return -ENODATA;
        }
        p += n;
        len = strcspn(p, "\n");
        if (len >= size)
                return -E2BIG;
        memcpy(line, p, len);
        line[len] = '\0';
        return 0;
}

static int stat_from_table(const struct host *h, const char *path, struct host_stat *ret) {
        struct host_stat s = { 0 };
        char line[128], type;
        unsigned mode, uid, gid;
        int r;

        r = answer_of(h, "/kernel/stat", path, line, sizeof(line));
        if (r < 0)
                return r;
        if (sscanf(line, " %c %o %u %u", &type, &mode, &uid, &gid) != 4 || mode > 07777)
                return -EBADMSG;
        s.mode = mode | (type == 'c' ? S_IFCHR : type == 'd' ? S_IFDIR : type == 'l' ? S_IFLNK : S_IFREG);
        s.uid = uid;
        s.gid = gid;
        *ret = s;
        return 0;
}

int host_stat(const struct host *h, const char *path, struct host_stat *ret) {
        _cleanup_close_ int fd = -1;
        struct stat st;
        int r;

        if (!h->real_root) {
                r = stat_from_table(h, path, ret);
                if (r != -ENODATA)
                        return r;
        }
        fd = host_open_file(h, path, O_PATH);
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return -errno;
        *ret = (struct host_stat){
                .mode = st.st_mode,
                .uid = st.st_uid,
                .gid = st.st_gid,
                .size = (uint64_t) st.st_size,
        };
        return 0;
}

int host_space(const struct host *h, const char *path, struct host_space *ret) {
        _cleanup_close_ int fd = -1;
        struct host_space s = { 0 };
        struct statvfs fs;
        struct stat st;
        char line[256];
        int r;

        if (!h->real_root) {
                r = answer_of(h, "/kernel/space", path, line, sizeof(line));
                if (r < 0)
                        return r;
                r = sscanf(line, " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
                           &s.device, &s.bytes, &s.bytes_available, &s.files, &s.files_free, &s.bytes_free);
                if (r < 5)
                        return -EBADMSG;
                if (r < 6)
                        s.bytes_free = s.bytes_available;
                *ret = s;
                return 0;
        }
        fd = host_open_file(h, path, O_PATH);
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0 || fstatvfs(fd, &fs) < 0)
                return -errno;
        *ret = (struct host_space){
                .device = st.st_dev,
                .bytes = (uint64_t) fs.f_blocks * fs.f_frsize,
                .bytes_available = (uint64_t) fs.f_bavail * fs.f_frsize,
                .bytes_free = (uint64_t) fs.f_bfree * fs.f_frsize,
                .files = fs.f_files,
                .files_free = fs.f_favail,
        };
        return 0;
}

int host_clock(const struct host *h, struct host_clock *ret) {
        struct timex t = { 0 };
        struct host_clock c = { 0 };
        char line[128];
        int r, synchronized;

        if (!h->real_root) {
                r = answer_of(h, "/kernel/clock", "", line, sizeof(line));
                if (r < 0)
                        return r;
                if (sscanf(line, " %d %" SCNd64 " %" SCNu64, &synchronized, &c.offset_usec,
                           &c.max_error_usec) != 3)
                        return -EBADMSG;
                c.synchronized = synchronized;
                *ret = c;
                return 0;
        }
        r = adjtimex(&t);
        if (r < 0)
                return -errno;
        *ret = (struct host_clock){
                .synchronized = r != TIME_ERROR && !(t.status & STA_UNSYNC),
                .offset_usec = t.status & STA_NANO ? t.offset / 1000 : t.offset,
                .max_error_usec = t.maxerror > 0 ? (uint64_t) t.maxerror : 0,
        };
        return 0;
}
