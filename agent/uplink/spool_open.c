/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "durable.h"
#include "spool_state.h"

#define LOCK_TRIES 100
#define LOCK_PAUSE (20 * USEC_PER_MSEC)

/* "%016x.seg" and nothing else. */
static bool parse_name(const char *name, uint64_t *ret) {
        uint64_t v = 0;

        for (size_t i = 0; i < 16; i++) {
                const char *digits = "0123456789abcdef", *p = name[i] ? strchr(digits, name[i]) : NULL;

                if (!p)
                        return false;
                v = v << 4 | (uint64_t) (p - digits);
        }
        if (!streq(name + 16, ".seg") || v == 0 || v > UINT64_MAX / 2)
                return false;
        *ret = v;
        return true;
}

static int compare_segments(const void *a, const void *b) {
        const struct segment *x = a, *y = b;

        return x->first_seq < y->first_seq ? -1 : x->first_seq > y->first_seq;
}

static int list_segments(struct spool *s) {
        _cleanup_closedir_ DIR *d = NULL;
        int fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

        if (fd < 0)
                return -errno;
        d = fdopendir(fd);
        if (!d) {
                r = -errno;
                (void) close(fd);
                return r;
        }
        for (;;) {
                struct segment g = { 0 };
                const struct dirent *e;

                errno = 0;
                e = readdir(d);
                if (!e && errno > 0)
                        return -errno;
                if (!e)
                        break;
                if (!parse_name(e->d_name, &g.first_seq))
                        continue;
                if (s->n_segments >= SPOOL_SEGMENTS_MAX)
                        return -E2BIG;
                r = spool_reserve_segment(s);
                if (r < 0)
                        return r;
                s->segments[s->n_segments++] = g;
        }
        if (s->n_segments > 0)
                qsort(s->segments, s->n_segments, sizeof(*s->segments), compare_segments);
        return 0;
}

struct recovery {
        struct segment *g;
        uint64_t before; /* where the next segment begins */
};

static void recovered_record(void *userdata, uint64_t seq, size_t offset, size_t payload_len) {
        struct recovery *v = userdata;

        if (seq >= v->before)
                return;
        v->g->records++;
        v->g->last_seq = seq;
        v->g->end = offset + segment_record_size(payload_len);
}

/* Scans segment i; the first readable one gives the spool its id. *ret_clean: may be continued. */
static int recover_segment(struct spool *s, size_t i, bool *ret_clean) {
        struct segment *g = &s->segments[i];
        struct recovery v = { g, i + 1 < s->n_segments ? s->segments[i + 1].first_seq : UINT64_MAX };
        _cleanup_free_ uint8_t *data = NULL;
        struct spool_scan scan = { 0 };
        size_t len;
        int r;

        g->last_seq = g->first_seq - 1;
        g->end = sizeof(struct segment_header);
        *ret_clean = false;
        r = segment_load(s->dir_fd, g->first_seq, &data, &len);
        if (r < 0)
                return r;
        g->size = len;
        r = spool_scan(data, len, recovered_record, &v, &scan);
        if (r == -EPROTONOSUPPORT)
                return r;
        if (r >= 0 && s->id == 0)
                s->id = scan.spool_id;
        if (r < 0 || scan.spool_id != s->id || scan.first_seq != g->first_seq) {
                s->damaged++; /* how many it held is not known */
                g->last_seq = g->first_seq - 1;
                g->records = 0;
                return 0;
        }
        g->salt = scan.salt;
        s->damaged += scan.damaged;
        /*
         * an unreadable end of an older segment; behind a torn one, which held nothing acknowledged,
         * there is a whole jump
         */
        if (!scan.clean && i + 1 < s->n_segments && v.before - g->last_seq > 1 &&
            v.before - g->last_seq <= SPOOL_JUMP)
                s->damaged++;
        *ret_clean = scan.clean && len == scan.capacity;
        return 0;
}

/* Makes what was found durable: it will be sent. */
static int sync_segment(const struct spool *s, struct segment *g) {
        _cleanup_close_ int fd = segment_open(s->dir_fd, g->first_seq, O_RDWR | O_NONBLOCK);

        if (fd < 0)
                return fd;
        if (fdatasync(fd) < 0)
                return -errno;
        g->durable = true;
        return 0;
}

static void read_cursor(struct spool *s) {
        _cleanup_close_ int fd = openat(s->dir_fd, "cursor", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct spool_cursor c[2];

        if (fd < 0)
                return; /* none: everything that is kept is delivered again */
        for (unsigned i = 0; i < ELEMENTSOF(c); i++) {
                if (segment_pread(fd, &c[i], sizeof(c[i]), i * sizeof(c[i])) < 0)
                        continue;
                if (c[i].crc != spool_cursor_crc(&c[i]) || c[i].spool_id != s->id ||
                    c[i].acked > UINT64_MAX / 2)
                        continue;
                if (c[i].acked >= s->acked) {
                        s->acked = c[i].acked;
                        s->cursor_slot = i ^ 1;
                }
        }
}

/* 0: none that can be read. */
static int read_id(const struct spool *s, uint64_t *ret) {
        _cleanup_free_ char *text = NULL;
        size_t len;
        int r;

        *ret = 0;
        r = durable_read(s->dir_fd, "id", 64, &text, &len);
        if (r == -ENOENT || r == -E2BIG)
                return 0;
        if (r < 0)
                return r;
        if (len >= 16 && strspn(text, "0123456789abcdef") == 16)
                *ret = strtoull(text, NULL, 16);
        return 0;
}

static int write_id(struct spool *s) {
        char text[32];
        int n;

        while (s->id == 0)
                if (getrandom(&s->id, sizeof(s->id), 0) != sizeof(s->id))
                        return -EIO;
        n = snprintf(text, sizeof(text), "%016" PRIx64 "\n", s->id);
        return durable_write(s->dir_fd, "id", text, (size_t) n, 0600);
}

/* The id that the segments carry, else the one in the file, else a new one; the file follows. */
static int settle_id(struct spool *s) {
        uint64_t id;
        int r;

        r = read_id(s, &id);
        if (r < 0)
                return r;
        if (s->id == 0)
                s->id = id;
        return s->id == id && id != 0 ? 0 : write_id(s);
}

static int recover_segments(struct spool *s, bool *ret_clean) {
        bool clean = false;
        int r;

        r = list_segments(s);
        if (r < 0)
                return r;
        /*
         * Backwards: the newest readable header gives the id, rather than the file "id", which has no
         * checksum. Nothing is changed before all are seen.
         */
        for (size_t i = s->n_segments; i > 0; i--) {
                bool c;

                r = recover_segment(s, i - 1, &c);
                if (r < 0)
                        return r;
                if (i == s->n_segments)
                        clean = c;
        }
        for (size_t i = 0; i < s->n_segments; i++) {
                r = sync_segment(s, &s->segments[i]);
                if (r < 0)
                        return r;
        }
        if (s->n_segments > 0 && fsync(s->dir_fd) < 0)
                return -errno;
        *ret_clean = clean;
        return 0;
}

/*
 * Decides the next sequence number (spool.h, Invariant), and goes on in the last segment where that is
 * safe.
 */
static int continue_last(struct spool *s, bool clean) {
        const struct segment *g = s->n_segments > 0 ? &s->segments[s->n_segments - 1] : NULL;
        int fd, sync_fd;

        s->next_seq = 1;
        if (g && clean)
                s->next_seq = g->last_seq + 1;
        if (g && !clean) {
                s->next_seq = g->last_seq + 1 + SPOOL_JUMP;
                s->torn++;
        }
        s->next_seq = MAX(s->next_seq, s->acked + 1);
        if (s->n_settled > 0)
                s->next_seq = MAX(s->next_seq, s->settled[s->n_settled - 1].to + 1);
        s->synced = s->next_seq - 1;
        if (!g || !clean || s->next_seq != g->last_seq + 1)
                return 0;
        fd = segment_open(s->dir_fd, g->first_seq, O_RDWR);
        if (fd < 0)
                return fd;
        sync_fd = segment_open(s->dir_fd, g->first_seq, O_RDWR);
        if (sync_fd < 0) {
                (void) close(fd);
                return sync_fd;
        }
        s->fd = fd;
        s->sync_fd = sync_fd;
        return 0;
}

/* What a killed process had begun in a child of its own shares its lock for some moments more. */
static int lock_patiently(int fd) {
        for (unsigned i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
                if (errno != EWOULDBLOCK)
                        return -errno;
                if (i == LOCK_TRIES)
                        return -EBUSY;
                (void) usleep(LOCK_PAUSE);
        }
        return 0;
}

static int lock_directory(const char *path, int *ret) {
        _cleanup_close_ int fd = -1;
        int r;

        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return -errno;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = lock_patiently(fd);
        if (r >= 0)
                *ret = TAKE_FD(fd);
        return r;
}

int spool_open(const char *path, const struct spool_options *o, struct spool **ret) {
        _cleanup_(spool_freep) struct spool *s = calloc(1, sizeof(*s));
        bool clean = false;
        int r;

        if (!s)
                return -ENOMEM;
        s->dir_fd = s->cursor_fd = s->fd = s->sync_fd = s->old_fd = s->old_sync_fd = s->read_fd = s->ledger.fd = -1;
        s->options = *o;
        s->options.segment_bytes -= o->segment_bytes % SPOOL_UNIT;
        if (s->options.segment_bytes < SPOOL_SEGMENT_MIN || s->options.segment_bytes > SPOOL_SEGMENT_MAX ||
            s->options.max_bytes / 2 < s->options.segment_bytes)
                return -EINVAL;
        r = lock_directory(path, &s->dir_fd);
        if (r < 0)
                return r;
        r = recover_segments(s, &clean);
        if (r < 0)
                return r;
        r = settle_id(s);
        if (r < 0)
                return r;
        (void) unlinkat(s->dir_fd, "new.tmp", 0); /* half-made when the last process ended */
        read_cursor(s);
        r = spool_ledger_open(s);
        if (r < 0)
                return r;
        if (s->n_segments > 0) /* what was removed before was done with, whatever a power cut left of the cursor */
                spool_advance(s, s->segments[0].first_seq - 1);
        r = continue_last(s, clean);
        if (r < 0)
                return r;
        spool_trim(s, 0);
        *ret = TAKE_PTR(s);
        return 0;
}
