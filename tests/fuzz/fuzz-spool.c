/* SPDX-License-Identifier: Apache-2.0 */
/* The recovery scan over any bytes: what it calls good is inside of the file, behind the header, and in
 * rising order. */
#include <assert.h>

#include "crc32c.h"
#include "segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
        uint64_t last, n;
        size_t end, len;
};

static void record(void *userdata, uint64_t seq, size_t offset, size_t payload_len) {
        struct seen *s = userdata;

        assert(s->n == 0 || seq > s->last);
        assert(offset % 8 == 0 && offset >= s->end);
        assert(payload_len > 0 && payload_len <= SPOOL_RECORD_MAX);
        assert(offset + sizeof(struct segment_record) + payload_len <= s->len);
        s->last = seq;
        s->end = offset + sizeof(struct segment_record) + payload_len;
        s->n++;
}

static void scan(const uint8_t *data, size_t size) {
        struct seen s = { .len = size, .end = sizeof(struct segment_header) };
        struct spool_scan r;

        if (spool_scan(data, size, record, &s, &r) < 0) {
                assert(s.n == 0);
                return;
        }
        assert(r.good == s.n);
        assert(r.end <= size && r.end >= s.end);
        assert(s.n == 0 || r.next_seq == s.last + 1);
        assert(r.damaged + r.good == r.next_seq - r.first_seq);
        assert(r.next_seq - r.first_seq <= size / SEGMENT_RECORD_MIN + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint8_t *copy;

        scan(data, size);
        /* once more with the checksums put right, so that the fuzzer comes behind the header and the first
         * records */
        if (size < sizeof(struct segment_header))
                return 0;
        copy = malloc(size);
        if (!copy)
                return 0;
        memcpy(copy, data, size);
        struct segment_header h;
        memcpy(&h, copy, sizeof(h));
        h.magic = SEGMENT_MAGIC;
        h.version = SPOOL_VERSION;
        h.crc = segment_header_crc(&h);
        memcpy(copy, &h, sizeof(h));
        for (size_t at = sizeof(h); size - at >= sizeof(struct segment_record);) {
                struct segment_record rec;

                memcpy(&rec, copy + at, sizeof(rec));
                if (rec.length == 0 || rec.length > size - at - sizeof(rec))
                        break;
                if (rec.crc % 4 != 0) /* some stay wrong */
                        rec.crc = segment_record_crc(h.salt, &rec, copy + at + sizeof(rec));
                memcpy(copy + at, &rec, sizeof(rec));
                at += segment_record_size(rec.length);
                if (at > size)
                        break;
        }
        scan(copy, size);
        free(copy);
        return 0;
}
