/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"
#include "words.h"
#include "host.h"
#include "host_stat.h"
#include "paths.h"

/* Room on the file systems that the host and the agent write to: bytes and inodes. */

#define WARN_PERCENT 5 /* check_words.def says them, too */
#define FAIL_PERCENT 1

#define SHM "/dev/shm"
#define OTHERS_MAX 64
#define PATH_SHOWN_MAX 64 /* bytes; longer ones are left out */

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

/* The file systems that were reported: each once, under the path that it was found at first. */
struct told {
        uint64_t devices[ELEMENTSOF(places) + OTHERS_MAX];
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

struct others {
        const struct host *host;
        struct told *told;
        struct sink *sink;
        size_t n;
};

/*
 * One whose source is a device in /dev: not what a server holds, which may not answer. Bind mounts of a
 * device come more than once.
 */
static bool sample_other(const struct mount_entry *m, void *userdata) {
        struct others *o = userdata;
        char path[PATH_SHOWN_MAX];
        struct host_space v;

        if (!startswith(m->source, "/dev/") || startswith(m->source, "/dev/loop") ||
            strlen(m->point) >= sizeof(path))
                return true;
        /* Another device than the mount's: something else lies over it, such as our own sandbox. */
        if (host_space(o->host, m->point, &v) == 0 && v.bytes > 0 &&
            (streq(m->type, "btrfs") || v.device == m->device) && !told_before(o->told, v.device)) {
                (void) snprintf(path, sizeof(path), "%s", m->point);
                (void) make_printable(path);
                sample_space(path, &v, o->sink);
        }
        return ++o->n < OTHERS_MAX;
}

/* Its size is what somebody gave it: measured by the memory, of which half is usual. */
static void check_shm(const struct host *h, struct sink *s) {
        struct host_space v;
        uint64_t memory = 0;
        char text[4096];

        if (host_space(h, SHM, &v) < 0 || v.bytes == 0 || v.bytes_available > v.bytes)
                return; /* there is none, or it is not ours to see */
        if (host_read(h, "/proc/meminfo", text, sizeof(text), NULL) == 0 && startswith(text, "MemTotal:"))
                memory = strtoull(text + strlen("MemTotal:"), NULL, 10) * 1024;
        probe_tell(s,
                   v.bytes < memory / 100 * WARN_PERCENT                   ? WORDS_SHM_SMALL :
                   v.bytes_available < v.bytes / 100 * WARN_PERCENT ? WORDS_SHM_FULL :
                                                                             WORDS_SHM,
                   SHM, NULL, "%.1f of %.1f GiB free", (double) v.bytes_available / (1 << 30),
                   (double) v.bytes / (1 << 30));
}

int probe_disk(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct told told = { .n = 0 };
        struct others others = { .host = h, .told = &told, .sink = s };

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
        check_shm(h, s);
        (void) mountinfo_visit(h, sample_other, &others); /* the others are measured, not judged */
        return 0;
}
