/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "crc32c.h"
#include "grow.h"
#include "io.h"
#include "segment_file.h"

#define NAME_MAX_LEN 32
#define PAGE 4096u

static const char *name_of(uint64_t first_seq, char buf[static NAME_MAX_LEN]) {
        (void) snprintf(buf, NAME_MAX_LEN, "%016" PRIx64 ".seg", first_seq);
        return buf;
}

static int open_segment(int dir_fd, uint64_t first_seq, int flags) {
        char name[NAME_MAX_LEN];
        int fd = openat(dir_fd, name_of(first_seq, name), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

        return fd < 0 ? -errno : fd;
}

int segment_remove(int dir_fd, const struct segment *g) {
        char name[NAME_MAX_LEN];

        return unlinkat(dir_fd, name_of(g->first_seq, name), 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* --- Finding them again ------------------------------------------------------------------------------ */

/* "%016x.seg" and nothing else; 0: it is not. */
static uint64_t parse_name(const char *name) {
        uint64_t v;

        if (strspn(name, "0123456789abcdef") != 16 || !streq(name + 16, ".seg"))
                return 0;
        v = strtoull(name, NULL, 16);
        return v > UINT64_MAX / 2 ? 0 : v;
}

static int compare_segments(const void *a, const void *b) {
        const struct segment *x = a, *y = b;

        return COMPARE(x->first_seq, y->first_seq);
}

int segments_reserve(struct segments *s) {
        return s->n < SEGMENTS_MAX ? grow(&s->list, &s->size, s->n + 1, sizeof(*s->list)) : -ENOSPC;
}

int segments_find(int dir_fd, struct segments *s) {
        _cleanup_closedir_ DIR *d = NULL;
        int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
            r = io_directory(fd < 0 ? -errno : fd, &d);
        const struct dirent *e;

        if (r < 0)
                return r;
        for (errno = 0; (e = readdir(d)); errno = 0) {
                uint64_t first_seq = parse_name(e->d_name);

                if (first_seq == 0)
                        continue;
                r = segments_reserve(s);
                if (r < 0)
                        return r;
                s->list[s->n++] = (struct segment) { .first_seq = first_seq };
        }
        if (errno > 0)
                return -errno;
        if (s->n > 0)
                qsort(s->list, s->n, sizeof(*s->list), compare_segments);
        return 0;
}

struct recovery {
        struct segment *g;
        uint64_t before;
};

static void recovered_record(void *userdata, uint64_t seq, size_t offset, size_t payload_len) {
        struct recovery *v = userdata;

        if (seq >= v->before)
                return;
        v->g->records++;
        v->g->last_seq = seq;
        v->g->end = offset + segment_record_size(payload_len);
}

int segment_recover(int dir_fd, struct segment *g, uint64_t before, uint64_t *id, uint64_t *damaged,
                    bool *ret_clean) {
        struct recovery v = { g, before };
        _cleanup_close_ int fd = open_segment(dir_fd, g->first_seq, O_RDWR);
        _cleanup_free_ uint8_t *data = NULL;
        struct spool_scan scan = { 0 };
        size_t len;
        int r;

        *g = (struct segment) {
                .first_seq = g->first_seq, .last_seq = g->first_seq - 1, .end = sizeof(struct segment_header)
        };
        *ret_clean = false;
        if (fd < 0)
                return fd;
        r = segment_load(dir_fd, g->first_seq, &data, &len);
        if (r < 0)
                return r;
        g->size = len;
        r = spool_scan(data, len, recovered_record, &v, &scan);
        if (r == -EPROTONOSUPPORT)
                return r;
        if (r >= 0 && *id == 0)
                *id = scan.spool_id;
        if (r < 0 || scan.spool_id != *id || scan.first_seq != g->first_seq) {
                ++*damaged; /* how many it held is not known */
                g->last_seq = g->first_seq - 1;
                g->records = 0;
        } else {
                g->salt = scan.salt;
                /*
                 * and an unreadable end of an older segment; behind a torn one, which held nothing
                 * acknowledged, there is a whole jump
                 */
                *damaged += scan.damaged +
                            (!scan.clean && before - g->last_seq > 1 && before - g->last_seq <= SPOOL_JUMP);
                *ret_clean = scan.clean && len == scan.capacity;
        }
        if (fdatasync(fd) < 0) /* it will be sent */
                return -errno;
        g->durable = true;
        return 0;
}

/* --- Writing ----------------------------------------------------------------------------------------- */

void segment_fds_close(struct segment_fds *f) {
        closep(&f->write);
        closep(&f->sync);
}

/* Allocates and fills fd, which has no name yet. */
static int prepare(int fd, uint64_t spool_id, uint64_t first_seq, size_t capacity, struct segment *ret) {
        struct segment_header h = {
                .magic = SEGMENT_MAGIC,
                .version = SPOOL_VERSION,
                .capacity = (uint16_t) (capacity / SPOOL_UNIT),
                .spool_id = spool_id,
                .first_seq = first_seq,
        };
        int r;

        if (getrandom(&h.salt, sizeof(h.salt), 0) != sizeof(h.salt))
                return -EIO;
        h.crc = segment_header_crc(&h);
        do
                r = posix_fallocate(fd, 0, (off_t) capacity);
        while (r == EINTR);
        if (r != 0)
                return -r;
        *ret = (struct segment) {
                .first_seq = first_seq,
                .last_seq = first_seq - 1,
                .size = capacity,
                .end = sizeof(h),
                .salt = h.salt,
        };
        return segment_write(ret, fd, (const uint8_t *) &h, sizeof(h));
}

int segment_create(int dir_fd, uint64_t spool_id, uint64_t first_seq, size_t capacity, struct segment *ret,
                   struct segment_fds *ret_fds) {
        struct segment_fds f = SEGMENT_FDS_NONE;
        char name[NAME_MAX_LEN];
        struct segment g;
        int r = 0;

        f.write = openat(dir_fd, SEGMENT_NEW_NAME, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                         0600);
        if (f.write < 0)
                return -errno;
        f.sync = openat(dir_fd, SEGMENT_NEW_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        r = f.sync < 0 ? -errno : prepare(f.write, spool_id, first_seq, capacity, &g);
        if (r >= 0 && renameat(dir_fd, SEGMENT_NEW_NAME, dir_fd, name_of(first_seq, name)) < 0)
                r = -errno;
        if (r < 0) {
                (void) unlinkat(dir_fd, SEGMENT_NEW_NAME, 0); /* what stays is removed by the next open */
                segment_fds_close(&f);
                return r;
        }
        *ret = g;
        *ret_fds = f;
        return 0;
}

int segment_continue(int dir_fd, const struct segment *g, struct segment_fds *ret) {
        struct segment_fds f = { open_segment(dir_fd, g->first_seq, O_RDWR),
                                 open_segment(dir_fd, g->first_seq, O_RDWR) };
        int r = MIN(f.write, f.sync);

        if (r < 0) {
                segment_fds_close(&f);
                return r;
        }
        *ret = f;
        return 0;
}

void segment_put(struct segment *g, uint64_t seq, uint8_t *out, size_t len) {
        assert(seq > g->last_seq || g->records == 0);
        assert(g->end + segment_record_size(len) <= g->size); /* the caller has made sure of room */
        segment_record_make(g->salt, seq, out, len);
        g->end += segment_record_size(len);
        g->last_seq = seq;
        g->records++;
}

int segment_write(const struct segment *g, int fd, const uint8_t *data, size_t len) {
        uint64_t offset = g->end - len;

        assert(len <= g->end);
        for (size_t done = 0; done < len;) {
                ssize_t n = pwrite(fd, data + done, len - done, (off_t) (offset + done));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                done += (size_t) n;
        }
        return 0;
}

/* --- Reading ----------------------------------------------------------------------------------------- */

int segment_pread(int fd, void *buf, size_t len, uint64_t offset) {
        for (size_t done = 0; done < len;) {
                ssize_t n = pread(fd, (uint8_t *) buf + done, len - done, (off_t) (offset + done));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                done += (size_t) n;
        }
        return 0;
}

int segment_load(int dir_fd, uint64_t first_seq, uint8_t **ret, size_t *ret_len) {
        _cleanup_close_ int fd = open_segment(dir_fd, first_seq, O_RDONLY);
        _cleanup_free_ uint8_t *data = NULL;
        struct stat st;
        size_t len;

        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EBADMSG;
        len = (size_t) MIN(st.st_size, (off_t) SPOOL_SEGMENT_MAX);
        data = malloc(MAX(len, (size_t) 1));
        if (!data)
                return -ENOMEM;
        if (segment_pread(fd, data, len, 0) < 0)
                for (size_t at = 0; at < len; at += PAGE)
                        if (segment_pread(fd, data + at, MIN(len - at, (size_t) PAGE), at) < 0)
                                memset(data + at, 0, MIN(len - at, (size_t) PAGE));
        *ret = TAKE_PTR(data);
        *ret_len = len;
        return 0;
}

void segment_reader_forget(struct segment_reader *r) {
        closep(&r->fd);
        r->segment = 0;
}

static int reader_open(struct segment_reader *r, int dir_fd, const struct segment *g, uint64_t want) {
        if (r->segment == g->first_seq && r->seq <= want)
                return 0;
        if (r->segment != g->first_seq) {
                int fd = open_segment(dir_fd, g->first_seq, O_RDONLY);

                segment_reader_forget(r);
                if (fd < 0)
                        return fd;
                r->fd = fd;
                r->segment = g->first_seq;
        }
        r->seq = g->first_seq;
        r->offset = sizeof(struct segment_header);
        return 0;
}

/* The header at the reader's place. False: not that of a record of g. */
static bool header_here(const struct segment_reader *r, const struct segment *g,
                        struct segment_record *ret) {
        return r->offset + sizeof(*ret) <= g->end &&
               segment_pread(r->fd, ret, sizeof(*ret), r->offset) >= 0 && ret->length > 0 &&
               ret->length <= SPOOL_RECORD_MAX && ret->seq == r->seq &&
               r->offset + segment_record_size(ret->length) <= g->end;
}

/* Whether the payload behind it is good. It goes to buf where that fits; a length is not believed before. */
static bool payload_here(const struct segment_reader *r, const struct segment *g,
                         const struct segment_record *rec, uint8_t *buf, bool fits) {
        uint32_t crc = segment_record_crc_start(g->salt, rec), n = 0;
        uint8_t part[PAGE];

        for (uint32_t at = 0; at < rec->length; at += n) {
                uint8_t *to = fits ? buf : part;

                n = fits ? rec->length : MIN(rec->length - at, PAGE);
                if (segment_pread(r->fd, to, n, r->offset + sizeof(*rec) + at) < 0)
                        return false;
                crc = crc32c(crc, to, n);
        }
        return crc == rec->crc;
}

struct search {
        uint64_t want, last; /* looked for: the first seq >= want, and <= last */
        uint64_t good;       /* records up to last */
        uint64_t seq, offset;
};

static void search_record(void *userdata, uint64_t seq, size_t offset, size_t payload_len) {
        struct search *f = userdata;

        (void) payload_len;
        if (seq > f->last)
                return;
        f->good++;
        if (f->seq == 0 && seq >= f->want) {
                f->seq = seq;
                f->offset = offset;
        }
}

/* After a bad record: scans the segment for the next good one, counts what is missing. 0: there is none. */
static int search(struct segment_reader *r, int dir_fd, struct segment *g, uint64_t want, uint64_t last,
                  uint64_t *damaged) {
        uint64_t younger = g->last_seq - last; /* they may not be there */
        uint64_t wanted = g->records - MIN(g->records, younger);
        struct search f = { .want = want, .last = last };
        _cleanup_free_ uint8_t *data = NULL;
        struct spool_scan scan;
        size_t len;
        int q;

        q = segment_load(dir_fd, g->first_seq, &data, &len);
        if (q == -ENOMEM || q == -EMFILE || q == -ENFILE)
                return q; /* says nothing about the segment */
        if (q >= 0 && spool_scan(data, len, search_record, &f, &scan) < 0)
                f = (struct search) { 0 };
        if (f.good < wanted) {
                *damaged += wanted - f.good;
                g->records -= wanted - f.good;
        }
        r->seq = f.seq;
        r->offset = f.offset;
        return f.seq > 0;
}

int segment_read(struct segment_reader *r, int dir_fd, struct segment *g, uint64_t want, uint64_t last,
                 void *buf, size_t size, size_t *ret_len, uint64_t *ret_seq, uint64_t *damaged) {
        int q;

        last = MIN(g->last_seq, MAX(last, g->first_seq - 1));
        q = reader_open(r, dir_fd, g, want);
        if (q == -ENOENT) {
                *damaged += g->records; /* somebody removed it */
                g->records = 0;
                return 0;
        }
        if (q < 0)
                return q;
        while (r->seq <= last) {
                struct segment_record rec;
                bool good = header_here(r, g, &rec);
                bool fits = good && rec.length <= size, skip = good && rec.seq < want;

                if (good && (skip || payload_here(r, g, &rec, buf, fits))) {
                        if (!skip && !fits)
                                return -ENOBUFS;
                        r->offset += segment_record_size(rec.length);
                        r->seq++;
                        if (skip)
                                continue;
                        *ret_len = rec.length;
                        *ret_seq = rec.seq;
                        return 1;
                }
                want = MAX(want, r->seq);
                q = search(r, dir_fd, g, want, last, damaged);
                if (q <= 0 || r->seq > last) {
                        segment_reader_forget(r);
                        return q < 0 ? q : 0;
                }
        }
        return 0;
}
