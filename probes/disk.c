/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "base.h"
#include "host.h"
#include "host_stat.h"
#include "memory.h"
#include "paths.h"
#include "words.h"

/* Room on the file systems that the host, its runs and the agent write to, and whether they can. */

#define WARN_PERCENT 5 /* check_words.def says them, too */
#define FAIL_PERCENT 1

#define SHM "/dev/shm"
#define NULL_DEVICE "/dev/null"
#define OTHERS_MAX 64
#define PATH_SHOWN_MAX 64 /* bytes; longer ones are left out */

static const char *const places[] = { "/", PATH_HOSTD_STATE, "/tmp" };

/* How far its words stand behind those for enough room. */
static unsigned judge_share(uint64_t all, uint64_t available) {
        double percent = (double) available * 100;

        return percent < (double) all * FAIL_PERCENT ? 2 : percent < (double) all * WARN_PERCENT;
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
        if (v->files == 0) /* btrfs and others */
                probe_tell(s, WORDS_DISK_INODES, place, NULL, "no limit");
        else
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

        if (host_space(h, SHM, &v) < 0 || v.bytes == 0 || v.bytes_available > v.bytes)
                return; /* there is none, or it is not ours to see */
        probe_tell(s,
                   v.bytes < memory_total(h) / 100 * WARN_PERCENT                   ? WORDS_SHM_SMALL :
                   v.bytes_available < v.bytes / 100 * WARN_PERCENT ? WORDS_SHM_FULL :
                                                                             WORDS_SHM,
                   SHM, NULL, "%.1f of %.1f GiB free", (double) v.bytes_available / (1 << 30),
                   (double) v.bytes / (1 << 30));
}

/* --- Where a run writes -------------------------------------------------------------------------------- */

static const char *const run_places[] = { "/tmp", "/var/tmp", SHM };

/* The mount that each of them lies on: of those whose point it begins with the longest, and the last. */
struct place_mounts {
        struct mount_entry of[ELEMENTSOF(run_places)], root;
};

static bool take_mount(const struct mount_entry *m, void *userdata) {
        struct place_mounts *p = userdata;
        size_t len = streq(m->point, "/") ? 0 : strlen(m->point);

        if (len == 0)
                p->root = *m;
        for (size_t i = 0; i < ELEMENTSOF(run_places); i++) {
                const char *rest = run_places[i] + len;

                if (strncmp(run_places[i], m->point, len) == 0 && (*rest == '\0' || *rest == '/') &&
                    strlen(m->point) >= strlen(p->of[i].point))
                        p->of[i] = *m;
        }
        return true;
}

/*
 * A file system that is read-only is so for all. A mount alone may be our sandbox's, whose "/" is then
 * mounted so as well.
 */
static bool is_read_only(const struct place_mounts *p, const struct mount_entry *m) {
        bool sandbox = p->root.mounted_read_only && !p->root.read_only;

        return m->read_only || (m->mounted_read_only && !sandbox);
}

/* True: nothing stands against writing there. */
static bool judge_place(const struct host *h, const struct place_mounts *p, size_t i, struct sink *s) {
        const struct mount_entry *m = &p->of[i];
        struct host_stat st;

        for (size_t k = 0; k < i; k++)
                if (streq(p->of[k].point, m->point) && is_read_only(p, m))
                        return true; /* it was said of that one */
        if (is_read_only(p, m))
                probe_tell(s, WORDS_PLACE_READ_ONLY, m->point, run_places[i], "read-only");
        else if (host_stat(h, run_places[i], &st) == 0 && S_ISDIR(st.mode) && !(st.mode & S_IWOTH))
                probe_tell(s, WORDS_PLACE_CLOSED, run_places[i], "1777", "mode %04o",
                           (unsigned) st.mode & 07777);
        else if (i == 0 && m->no_programs)
                probe_tell(s, WORDS_PLACE_NO_PROGRAMS, m->point, NULL, "noexec");
        else
                return true;
        return false;
}

static bool judge_null(const struct host *h, struct sink *s) {
        struct host_stat st;

        if (host_stat(h, NULL_DEVICE, &st) < 0)
                return true;
        if (!S_ISCHR(st.mode))
                probe_tell(s, WORDS_NULL_IS_NONE, NULL_DEVICE, NULL, "no device");
        else if (!(st.mode & S_IWOTH))
                probe_tell(s, WORDS_PLACE_CLOSED, NULL_DEVICE, "0666", "mode %04o",
                           (unsigned) st.mode & 07777);
        else
                return true;
        return false;
}

static void check_places(const struct host *h, struct sink *s) {
        struct place_mounts p = { .root = { .point = "" } };
        bool good = judge_null(h, s);

        if (mountinfo_visit(h, take_mount, &p) < 0)
                return;
        for (size_t i = 0; i < ELEMENTSOF(run_places); i++)
                good &= judge_place(h, &p, i, s);
        if (good)
                probe_tell(s, WORDS_PLACES, NULL, NULL, "can be written");
}

int probe_disk(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct told told = { .n = 0 };
        struct others others = { .host = h, .told = &told, .sink = s };

        (void) c;
        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                struct host_space v;
                int r = host_space(h, places[i], &v);

                if (r == -ENOENT || ((r == -EACCES || r == -ENODATA) && i > 0))
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
        check_places(h, s);
        (void) mountinfo_visit(h, sample_other, &others); /* the others are measured, not judged */
        return 0;
}
