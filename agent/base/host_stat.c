/* SPDX-License-Identifier: Apache-2.0 */
#include "host_stat.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>

#include "texts.h"

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

/* --- Mounts ------------------------------------------------------------------------------------------- */

#define LINE_SIZE 4096

/* "\040" stands for a blank, and so on. */
static bool mount_unescape(const char *from, size_t len, char *to, size_t size) {
        size_t n = 0;

        for (size_t i = 0; i < len; i++) {
                unsigned c = (unsigned char) from[i];

                if (c == '\\') {
                        if (len - i < 4 || sscanf(from + i + 1, "%3o", &c) != 1 || c == 0 || c > 0377)
                                return false;
                        i += 3;
                }
                if (n + 1 >= size)
                        return false;
                to[n++] = (char) c;
        }
        to[n] = 0;
        return n > 0;
}

/* Whether a list like "rw,noatime" has an option; it ends at a blank. */
static bool has_option(const char *list, const char *option) {
        size_t len = strlen(option);

        for (;; list++) {
                size_t n = strcspn(list, ", \n");

                if (n == len && strncmp(list, option, len) == 0)
                        return true;
                list += n;
                if (*list != ',')
                        return false;
        }
}

/* "36 35 98:0 /root-of-it /mnt rw,noatime shared:1 - ext4 /dev/sda1 rw" */
bool mountinfo_parse(const char *line, struct mount_entry *ret) {
        const char *separator = strstr(line, " - ");
        unsigned major, minor;
        struct mount_entry m = { .source = "" };
        int at = 0;
        size_t n;

        if (!separator || sscanf(line, "%*u %*u %u:%u %*s %n", &major, &minor, &at) != 2 || at == 0 ||
            line + at >= separator)
                return false;
        if (!mount_unescape(line + at, strcspn(line + at, " "), m.point, sizeof(m.point)) ||
            m.point[0] != '/')
                return false;
        line += (size_t) at + strcspn(line + at, " ");
        m.mounted_read_only = has_option(line + 1, "ro");
        m.no_programs = has_option(line + 1, "noexec");
        separator += strlen(" - ");
        n = strcspn(separator, " \n");
        if (n == 0 || n >= sizeof(m.type))
                return false;
        memcpy(m.type, separator, n);
        (void) sscanf(separator + n, " %63s", m.source); /* some have none */
        line = strchr(separator + n, ' ') ? strrchr(separator, ' ') : NULL;
        m.read_only = line && has_option(line + 1, "ro");
        m.device = makedev(major, minor);
        *ret = m;
        return true;
}

int mountinfo_visit(const struct host *h, bool (*visit)(const struct mount_entry *m, void *userdata),
                    void *userdata) {
        _cleanup_fclose_ FILE *f = NULL;
        int r = host_open_stream(h, "/proc/self/mountinfo", &f);
        struct mount_entry m;
        char line[LINE_SIZE];

        if (r < 0)
                return r;
        while (fgets(line, sizeof(line), f))
                if (strchr(line, '\n') && mountinfo_parse(line, &m) && !visit(&m, userdata))
                        break;
        return 0;
}

/* --- Libraries ---------------------------------------------------------------------------------------- */

int elf_check_library(const struct host *h, const char *path, char why[static ELF_WHY_MAX]) {
        _cleanup_close_ int fd = -1;
        Elf64_Ehdr header;
        ssize_t n;

        fd = host_open_file(h, path, O_RDONLY | O_NONBLOCK);
        if (fd < 0) {
                (void) snprintf(why, ELF_WHY_MAX, "%s", fd == -ENOENT ? "not installed" : strerror(-fd));
                return fd;
        }
        n = read(fd, &header, sizeof(header));
        if (n != (ssize_t) sizeof(header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
                return text_fail(why, ELF_WHY_MAX, -ENOEXEC, "not an ELF file");
        if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
            header.e_type != ET_DYN)
                return text_fail(why, ELF_WHY_MAX, -ENOEXEC, "not a 64-bit x86-64 shared library");
        return 0;
}
