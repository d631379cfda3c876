/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "crc32c.h"
#include "spool_state.h"

void spool_forget_reader(struct spool *s) {
        closep(&s->read_fd);
        s->read_segment = 0;
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

/*
 * After a bad record: scans the whole segment for the next good one. 0: there is none. Counts what is
 * missing once.
 */
static int search_segment(struct spool *s, struct segment *g, uint64_t want) {
        uint64_t last = MIN(g->last_seq, MAX(s->synced, g->first_seq - 1)); /* younger ones may not be there */
        uint64_t wanted = g->records - MIN(g->records, g->last_seq - last);
        struct search f = { .want = want, .last = last };
        _cleanup_free_ uint8_t *data = NULL;
        struct spool_scan scan;
        size_t len;
        int r;

        r = segment_load(s->dir_fd, g->first_seq, &data, &len);
        if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
                return r; /* says nothing about the segment */
        if (r >= 0 && spool_scan(data, len, search_record, &f, &scan) < 0)
                f = (struct search) { 0 };
        if (f.good < wanted) {
                s->damaged += wanted - f.good;
                g->records -= wanted - f.good;
        }
        s->read_seq = f.seq;
        s->read_offset = f.offset;
        return f.seq > 0;
}

static int reader_open(struct spool *s, const struct segment *g, uint64_t want) {
        if (s->read_segment == g->first_seq && s->read_seq <= want)
                return 0;
        if (s->read_segment != g->first_seq) {
                spool_forget_reader(s);
                s->read_fd = segment_open(s->dir_fd, g->first_seq, O_RDONLY | O_NONBLOCK);
                if (s->read_fd < 0) {
                        int r = s->read_fd;

                        s->read_fd = -1;
                        return r;
                }
                s->read_segment = g->first_seq;
        }
        s->read_seq = g->first_seq;
        s->read_offset = sizeof(struct segment_header);
        return 0;
}

/* The header at the reader's place. -EBADMSG: not that of a record of g. */
static int header_here(const struct spool *s, const struct segment *g, struct segment_record *ret) {
        struct segment_record rec;

        if (s->read_offset + sizeof(rec) > g->end ||
            segment_pread(s->read_fd, &rec, sizeof(rec), s->read_offset) < 0)
                return -EBADMSG;
        if (rec.length == 0 || rec.length > SPOOL_RECORD_MAX || rec.seq != s->read_seq ||
            s->read_offset + segment_record_size(rec.length) > g->end)
                return -EBADMSG;
        *ret = rec;
        return 0;
}

static void step(struct spool *s, const struct segment_record *rec) {
        s->read_offset += segment_record_size(rec->length);
        s->read_seq++;
}

/* Whether the record at the reader's place is good, without room for it: a length is not believed before. */
static bool good_here(const struct spool *s, const struct segment *g, const struct segment_record *rec) {
        uint32_t crc = segment_record_crc_start(g->salt, rec);
        uint8_t part[4096];

        for (uint32_t at = 0; at < rec->length;) {
                size_t n = MIN(rec->length - at, sizeof(part));

                if (segment_pread(s->read_fd, part, n, s->read_offset + sizeof(*rec) + at) < 0)
                        return false;
                crc = crc32c(crc, part, n);
                at += (uint32_t) n;
        }
        return crc == rec->crc;
}

/* The record at the reader's place, whole and checked; steps behind it. 1, -EBADMSG, -ENOBUFS. */
static int record_here(struct spool *s, const struct segment *g, const struct segment_record *rec, void *buf,
                       size_t size) {
        if (rec->length > size)
                return good_here(s, g, rec) ? -ENOBUFS : -EBADMSG;
        if (segment_pread(s->read_fd, buf, rec->length, s->read_offset + sizeof(*rec)) < 0 ||
            rec->crc != segment_record_crc(g->salt, rec, buf))
                return -EBADMSG;
        step(s, rec);
        return 1;
}

/* The first good record of g with seq >= want. 1: read; 0: none. */
static int read_segment(struct spool *s, struct segment *g, uint64_t want, void *buf, size_t size,
                        struct segment_record *ret) {
        uint64_t last = MIN(g->last_seq, s->synced);
        int r;

        r = reader_open(s, g, want);
        if (r == -ENOENT) {
                s->damaged += g->records; /* somebody removed it */
                g->records = 0;
                return 0;
        }
        if (r < 0)
                return r;
        while (s->read_seq <= last) {
                struct segment_record rec;

                r = header_here(s, g, &rec);
                if (r >= 0 && rec.seq < want) {
                        step(s, &rec);
                        continue;
                }
                if (r >= 0)
                        r = record_here(s, g, &rec, buf, size);
                if (r == 1)
                        *ret = rec;
                if (r != -EBADMSG)
                        return r;
                want = MAX(want, s->read_seq);
                r = search_segment(s, g, want);
                if (r <= 0 || s->read_seq > last) {
                        spool_forget_reader(s);
                        return r < 0 ? r : 0;
                }
        }
        return 0;
}

int spool_read(struct spool *s, uint64_t after, void *buf, size_t size, size_t *ret_len, uint64_t *ret_seq) {
        uint64_t want = spool_next_unsettled(s, MAX(after, s->acked) + 1);

        for (size_t i = 0; i < s->n_segments && want <= s->synced; i++) {
                struct segment *g = &s->segments[i];
                struct segment_record rec;
                int r;

                while (g->last_seq >= MAX(want, g->first_seq) && g->records > 0) {
                        r = read_segment(s, g, want, buf, size, &rec);
                        if (r < 0)
                                return r;
                        if (r == 0)
                                break;
                        want = spool_next_unsettled(s, rec.seq);
                        if (want == rec.seq) {
                                *ret_len = rec.length;
                                *ret_seq = rec.seq;
                                return 1;
                        }
                }
        }
        return 0;
}
