/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/sysmacros.h>

#include "base.h"
#include "words.h"
#include "host.h"
#include "host_stat.h"
#include "paths.h"

/* File systems of this host's own disks, out of /proc/self/mountinfo (proc(5)). */

#define MOUNTS_MAX 64
struct mount_point {
        char path[64]; /* longer ones are left out */
        uint64_t device; /* 0: this file system has a number of its own (btrfs) */
};

/* "\040" stands for a blank, and so on. */
static bool unescape(const char *from, size_t len, char *to, size_t size) {
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

/* "36 35 98:0 /root-of-it /mnt rw,noatime master:1 - ext4 /dev/sda1 rw" */
/* Pure: one line. False: none of those. */
static bool mount_parse(const char *line, struct mount_point *ret) {
        unsigned major, minor;
        const char *separator = strstr(line, " - "), *path;
        char type[32], source[64];
        struct mount_point m;
        int at = 0;

        if (!separator || sscanf(line, "%*u %*u %u:%u %*s %n", &major, &minor, &at) != 2 || at == 0 ||
            line + at >= separator || sscanf(separator, " - %31s %63s", type, source) != 2)
                return false;
        path = line + at;
        if (!startswith(source, "/dev/") || startswith(source, "/dev/loop") ||
            !unescape(path, strcspn(path, " "), m.path, sizeof(m.path)) || m.path[0] != '/')
                return false;
        m.device = streq(type, "btrfs") ? 0 : makedev(major, minor);
        *ret = m;
        return true;
}

/*
 * Those whose source is a device in /dev: not what a server holds, which may not answer. Bind mounts of a
 * device come more than once. Returns how many; -errno.
 */
static int mounts_read(const struct host *h, struct mount_point *ret, size_t max) {
        _cleanup_fclose_ FILE *f = NULL;
        char line[4096];
        size_t n = 0;
        int fd;

        fd = host_open_file(h, "/proc/self/mountinfo", O_RDONLY);
        if (fd < 0)
                return fd;
        f = fdopen(fd, "r");
        if (!f) {
                close_fd(fd);
                return -ENOMEM;
        }
        while (n < max && fgets(line, sizeof(line), f))
                if (strchr(line, '\n') && mount_parse(line, &ret[n]))
                        n++;
        return (int) n;
}

/* Room on the file systems that the host and the agent write to: bytes and inodes. */

#define WARN_PERCENT 5 /* check_words.def says them, too */
#define FAIL_PERCENT 1

static const char *const places[] = { "/", PATH_HOSTD_STATE };

/* How far its words stand behind those for enough room. */
static unsigned judge_share(uint64_t all, uint64_t available) {
        if (available < all / 100 * FAIL_PERCENT)
                return 2;
        return available < all / 100 * WARN_PERCENT;
}

static void sample_space(const char *place, const struct host_space *v, struct sink *s) {
        if (v->bytes > INT64_MAX || v->bytes_free > v->bytes || v->bytes_available > v->bytes_free)
                return; /* its numbers contradict each other */
        put_int(s, METRIC_FILESYSTEM_LIMIT, (int64_t) v->bytes, place, NULL, NULL);
        put_int(s, METRIC_FILESYSTEM_USAGE, (int64_t) (v->bytes - v->bytes_free), place, "used", NULL);
        put_int(s, METRIC_FILESYSTEM_USAGE, (int64_t) v->bytes_available, place, "free", NULL);
        /* for root */
        put_int(s, METRIC_FILESYSTEM_USAGE, (int64_t) (v->bytes_free - v->bytes_available), place,
                "reserved", NULL);
}

static void check_space(const char *place, const struct host_space *v, struct sink *s) {
        probe_tell(s, WORDS_DISK_SPACE + judge_share(v->bytes, v->bytes_available), place, NULL,
                   "%.1f of %.1f GiB free", (double) v->bytes_available / (1 << 30),
                   (double) v->bytes / (1 << 30));
        sample_space(place, v, s);
        if (v->files > 0) /* btrfs and others have no such limit */
                probe_tell(s, WORDS_DISK_INODES + judge_share(v->files, v->files_free), place, NULL,
                           "%.1f %% free", 100.0 * (double) v->files_free / (double) v->files);
}

/* The file systems that were told: each once, under the path that it was found at first. */
struct told {
        uint64_t devices[ELEMENTSOF(places) + MOUNTS_MAX];
        size_t n;
};

static bool told_before(struct told *t, uint64_t device) {
        for (size_t i = 0; i < t->n; i++)
                if (t->devices[i] == device)
                        return true;
        if (t->n < ELEMENTSOF(t->devices))
                t->devices[t->n++] = device;
        return false;
}

/* The host's other disks are measured and not judged: what a run keeps there is its own business. */
static void sample_others(const struct host *h, struct told *t, struct sink *s) {
        struct mount_point mounts[MOUNTS_MAX];
        int n = mounts_read(h, mounts, ELEMENTSOF(mounts));

        for (int i = 0; i < n; i++) {
                struct host_space v;

                /* Another device than the mount's: something else lies over it, such as our own sandbox. */
                if (host_space(h, mounts[i].path, &v) < 0 || v.bytes == 0 ||
                    (mounts[i].device != 0 && v.device != mounts[i].device) || told_before(t, v.device))
                        continue;
                (void) make_printable(mounts[i].path);
                sample_space(mounts[i].path, &v, s);
        }
}

int probe_disk(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct told told = { .n = 0 };

        (void) c;
        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                struct host_space v;
                int r = host_space(h, places[i], &v);

                if (r == -ENOENT || (r == -EACCES && i > 0))
                        continue; /* not installed, or not ours to see: "/" is always there */
                if (r < 0 || v.bytes == 0 || v.bytes_available > v.bytes || v.files_free > v.files) {
                        probe_tell(s, WORDS_DISK_SILENT, places[i],
                                   r < 0 ? strerror(-r) : "its numbers contradict each other", "%s", "");
                        continue;
                }
                if (told_before(&told, v.device))
                        continue;
                check_space(places[i], &v, s);
        }
        sample_others(h, &told, s);
        return 0;
}
