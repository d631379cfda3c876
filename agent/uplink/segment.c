/* SPDX-License-Identifier: Apache-2.0 */
#include "crc32c.h"
#include "segment.h"

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

void segment_record_make(uint32_t salt, uint64_t seq, uint8_t *out, size_t len) {
        struct segment_record rec = { .length = (uint32_t) len, .seq = seq };

        rec.crc = segment_record_crc(salt, &rec, out + sizeof(rec));
        memcpy(out, &rec, sizeof(rec));
        memset(out + sizeof(rec) + len, 0, segment_record_size(len) - sizeof(rec) - len);
}

/* --- The scan ---------------------------------------------------------------------------------------- */

struct scan {
        const uint8_t *data;
        size_t len;
        uint32_t salt;
        size_t budget; /* bytes that the search behind bad places may still check: keeps hostile files linear
                        */
};

/* Whether a good record with min <= seq <= max begins at offset. */
static bool good_at(const struct scan *s, size_t offset, uint64_t min, uint64_t max,
                    struct segment_record *ret) {
        struct segment_record r;

        if (offset > s->len || s->len - offset < sizeof(r))
                return false;
        memcpy(&r, s->data + offset, sizeof(r));
        if (r.length == 0 || r.length > SPOOL_RECORD_MAX || r.length > s->len - offset - sizeof(r))
                return false;
        if (r.seq < min || r.seq > max)
                return false;
        if (r.crc != segment_record_crc(s->salt, &r, s->data + offset + sizeof(r)))
                return false;
        *ret = r;
        return true;
}

/*
 * Looks behind a bad place for the next good record: it lies on the 8-byte grid, and between it and the
 * bad place the missing ones must have had room.
 */
static bool find_next(struct scan *s, size_t bad, uint64_t expected, size_t *ret_offset,
                      struct segment_record *ret) {
        for (size_t at = bad + SEGMENT_RECORD_MIN; at < s->len; at += 8) {
                uint32_t length;

                if (s->len - at < sizeof(struct segment_record))
                        return false;
                memcpy(&length, s->data + at, sizeof(length));
                if (length == 0 || length > SPOOL_RECORD_MAX)
                        continue;
                if (good_at(s, at, expected + 1, expected + (at - bad) / SEGMENT_RECORD_MIN, ret)) {
                        *ret_offset = at;
                        return true;
                }
                /* most candidates fail on seq and cost nothing; the charge is for those that were checked */
                uint64_t seq;
                memcpy(&seq, s->data + at + offsetof(struct segment_record, seq), sizeof(seq));
                if (seq > expected && seq - expected <= (at - bad) / SEGMENT_RECORD_MIN) {
                        if (s->budget < length)
                                return false;
                        s->budget -= length;
                }
        }
        return false;
}

static bool zeros(const uint8_t *p, size_t len) {
        return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

static int scan_header(const void *data, size_t len, struct segment_header *ret) {
        struct segment_header h;

        if (len < sizeof(h))
                return -EBADMSG;
        memcpy(&h, data, sizeof(h));
        if (h.magic != SEGMENT_MAGIC || h.crc != segment_header_crc(&h) || h.version == 0)
                return -EBADMSG;
        if (h.version > SPOOL_VERSION)
                return -EPROTONOSUPPORT;
        if (h.first_seq == 0 || h.first_seq > UINT64_MAX / 2)
                return -EBADMSG;
        *ret = h;
        return 0;
}

int spool_scan(const void *data, size_t len,
               void (*record)(void *userdata, uint64_t seq, size_t offset, size_t payload_len),
               void *userdata, struct spool_scan *ret) {
        struct scan s = { .data = data, .len = len, .budget = 4 * len + SPOOL_RECORD_MAX };
        struct segment_record rec;
        struct segment_header h;
        struct spool_scan out;
        size_t at = sizeof(h);
        int r;

        r = scan_header(data, len, &h);
        if (r < 0)
                return r;
        s.salt = h.salt;
        out = (struct spool_scan) {
                .spool_id = h.spool_id,
                .first_seq = h.first_seq,
                .next_seq = h.first_seq,
                .salt = h.salt,
                .capacity = (size_t) h.capacity * SPOOL_UNIT,
                .end = at,
        };
        while (good_at(&s, at, out.next_seq, out.next_seq, &rec) ||
               find_next(&s, at, out.next_seq, &at, &rec)) {
                out.damaged += rec.seq - out.next_seq;
                out.next_seq = rec.seq + 1;
                out.good++;
                if (record)
                        record(userdata, rec.seq, at, rec.length);
                at = MIN(at + segment_record_size(rec.length), len);
                out.end = at;
        }
        out.clean = zeros(s.data + out.end, len - out.end);
        *ret = out;
        return 0;
}
