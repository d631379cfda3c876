/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "crc32c.h"
#include "segment.h"

#define NEW_NAME "new.tmp" /* a segment before it has its name; removed on open */
#define PAGE 4096u

uint32_t segment_header_crc(const struct segment_header *h) {
        return crc32c(0, h, offsetof(struct segment_header, crc));
}

uint32_t segment_record_crc_start(uint32_t salt, const struct segment_record *r) {
        uint32_t crc = crc32c(0, &salt, sizeof(salt));

        crc = crc32c(crc, &r->length, sizeof(r->length));
        return crc32c(crc, &r->seq, sizeof(r->seq));
}

uint32_t segment_record_crc(uint32_t salt, const struct segment_record *r, const void *payload) {
        return crc32c(segment_record_crc_start(salt, r), payload, r->length);
}

void segment_name(uint64_t first_seq, char buf[static SEGMENT_NAME_MAX]) {
        (void) snprintf(buf, SEGMENT_NAME_MAX, "%016" PRIx64 ".seg", first_seq);
}

int segment_open(int dir_fd, uint64_t first_seq, int flags) {
        char name[SEGMENT_NAME_MAX];
        int fd;

        segment_name(first_seq, name);
        fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW);
        return fd < 0 ? -errno : fd;
}

/* Allocates and fills fd, which has no name yet. */
static int segment_prepare(int fd, uint64_t spool_id, uint64_t first_seq, size_t capacity,
                           struct segment *ret) {
        struct segment_header h = {
                .magic = SEGMENT_MAGIC,
                .version = SPOOL_VERSION,
                .capacity = (uint16_t) (capacity / SPOOL_UNIT),
                .spool_id = spool_id,
                .first_seq = first_seq,
        };
        ssize_t n;
        int r;

        if (getrandom(&h.salt, sizeof(h.salt), 0) != sizeof(h.salt))
                return -EIO;
        h.crc = segment_header_crc(&h);
        do
                r = posix_fallocate(fd, 0, (off_t) capacity);
        while (r == EINTR);
        if (r != 0)
                return -r;
        n = pwrite(fd, &h, sizeof(h), 0);
        if (n < 0)
                return -errno;
        if ((size_t) n != sizeof(h))
                return -EIO;
        *ret = (struct segment) {
                .first_seq = first_seq,
                .last_seq = first_seq - 1,
                .size = capacity,
                .end = sizeof(h),
                .salt = h.salt,
        };
        return 0;
}

int segment_create(int dir_fd, uint64_t spool_id, uint64_t first_seq, size_t capacity, struct segment *ret,
                   int *ret_fd, int *ret_sync_fd) {
        _cleanup_close_ int fd = -1, sync_fd = -1;
        char name[SEGMENT_NAME_MAX];
        struct segment g;
        int r;

        segment_name(first_seq, name);
        fd = openat(dir_fd, NEW_NAME, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        sync_fd = openat(dir_fd, NEW_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        r = sync_fd < 0 ? -errno : segment_prepare(fd, spool_id, first_seq, capacity, &g);
        if (r >= 0 && renameat(dir_fd, NEW_NAME, dir_fd, name) < 0)
                r = -errno;
        if (r < 0) {
                (void) unlinkat(dir_fd, NEW_NAME, 0); /* what stays is removed by the next open */
                return r;
        }
        *ret = g;
        *ret_fd = TAKE_FD(fd);
        *ret_sync_fd = TAKE_FD(sync_fd);
        return 0;
}

void segment_put(struct segment *g, uint64_t seq, uint8_t *out, size_t len) {
        struct segment_record rec = { .length = (uint32_t) len, .seq = seq };
        size_t total = segment_record_size(len);

        rec.crc = segment_record_crc(g->salt, &rec, out + sizeof(rec));
        memcpy(out, &rec, sizeof(rec));
        memset(out + sizeof(rec) + len, 0, total - sizeof(rec) - len);
        g->end += total;
        g->last_seq = seq;
        g->records++;
}

int segment_write(const struct segment *g, int fd, const uint8_t *data, size_t len) {
        uint64_t offset = g->end - len;
        size_t done = 0;

        while (done < len) {
                ssize_t n = pwrite(fd, data + done, len - done, (off_t) (offset + done));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                done += (size_t) n;
        }
        return 0;
}

int segment_pread(int fd, void *buf, size_t len, uint64_t offset) {
        size_t done = 0;

        while (done < len) {
                ssize_t n = pread(fd, (uint8_t *) buf + done, len - done, (off_t) (offset + done));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return -EIO;
                done += (size_t) n;
        }
        return 0;
}

int segment_load(int dir_fd, uint64_t first_seq, uint8_t **ret, size_t *ret_len) {
        _cleanup_close_ int fd = segment_open(dir_fd, first_seq, O_RDONLY | O_NONBLOCK);
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
