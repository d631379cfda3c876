/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "crc32c.h"
#include "spool_state.h"

struct spool *spool_free(struct spool *s) {
        if (!s)
                return NULL;
        closep(&s->fd);
        closep(&s->sync_fd);
        closep(&s->old_fd);
        closep(&s->old_sync_fd);
        closep(&s->read_fd);
        closep(&s->cursor_fd);
        closep(&s->ledger.fd);
        closep(&s->dir_fd);
        free(s->segments);
        free(s->pending);
        free(s);
        return NULL;
}

uint64_t spool_id(const struct spool *s) {
        return s->id;
}

int spool_reserve_segment(struct spool *s) {
        size_t size = MAX(s->size_segments * 2, (size_t) 16);
        struct segment *p;

        if (s->n_segments < s->size_segments)
                return 0;
        p = reallocarray(s->segments, size, sizeof(*p));
        if (!p)
                return -ENOMEM;
        s->segments = p;
        s->size_segments = size;
        return 0;
}

uint64_t spool_segment_open_records(const struct spool *s, const struct segment *g) {
        if (g->last_seq < g->first_seq || g->last_seq <= s->acked)
                return 0;
        uint64_t from = MAX(s->acked + 1, g->first_seq), n = MIN(g->records, g->last_seq + 1 - from);

        return n - MIN(n, spool_count_settled(s, from, g->last_seq));
}

/* Room for a record with len bytes of payload behind what is pending. */
static int pending_reserve(struct spool *s, size_t len) {
        size_t need = s->pending_len + segment_record_size(len), size;
        uint8_t *p;

        if (need <= s->pending_size)
                return 0;
        /* all of it at once: only what is used becomes memory, and nothing grows later */
        size = MAX(need, spool_pending_limit(s));
        p = realloc(s->pending, size);
        if (!p)
                return -ENOMEM;
        s->pending = p;
        s->pending_size = size;
        return 0;
}

int spool_append(struct spool *s, const void *data, size_t len, uint64_t *ret_seq) {
        uint8_t *out;
        int r;

        if (len == 0)
                return -EINVAL;
        if (len > SPOOL_RECORD_MAX ||
            segment_record_size(len) > s->options.segment_bytes - sizeof(struct segment_header))
                return -E2BIG;
        if (s->pending_len > 0 && s->pending_len + segment_record_size(len) > spool_pending_limit(s)) {
                r = spool_sync(s);
                if (r < 0)
                        return r;
        }
        r = spool_make_room(s, len);
        if (r < 0)
                return r;
        r = pending_reserve(s, len);
        if (r < 0)
                return r;
        out = s->pending + s->pending_len;
        memcpy(out + sizeof(struct segment_record), data, len);
        segment_put(spool_current(s), s->next_seq, out, len);
        s->pending_len += segment_record_size(len);
        s->appended++;
        *ret_seq = s->next_seq++;
        return 0;
}

int spool_prepare(struct spool *s) {
        return spool_make_room(s, spool_pending_limit(s) - sizeof(struct segment_header) -
                                          sizeof(struct segment_record));
}

void spool_ack(struct spool *s, uint64_t seq) {
        seq = MIN(seq, s->synced);
        if (seq <= s->acked)
                return;
        spool_advance(s, seq);
        spool_trim(s, 0);
}

uint32_t spool_cursor_crc(const struct spool_cursor *c) {
        return crc32c(0, c, offsetof(struct spool_cursor, crc));
}

int spool_save_cursor(struct spool *s) {
        struct spool_cursor c = { .spool_id = s->id, .acked = s->acked };
        ssize_t n;

        if (s->ledger.changed || s->ledger.dirty) {
                int r = spool_ledger_write(s);

                if (r < 0)
                        return r == -EBUSY ? 0 : r; /* what waits for the disk is whole in itself */
        }
        if (s->ledger.dirty)
                return 0; /* it tells how far, too; a cursor that outlives it in a power cut must not tell more */
        c.crc = spool_cursor_crc(&c);
        if (s->cursor_fd < 0) {
                s->cursor_fd = openat(s->dir_fd, "cursor", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
                if (s->cursor_fd < 0)
                        return -errno;
        }
        /* in turn, so that a torn write leaves the other one */
        n = pwrite(s->cursor_fd, &c, sizeof(c), (off_t) (s->cursor_slot * sizeof(c)));
        if (n != sizeof(c))
                return n < 0 ? -errno : -EIO;
        s->cursor_slot ^= 1;
        return 0;
}

void spool_get_stats(const struct spool *s, struct spool_stats *ret) {
        struct spool_stats out = {
                .bytes = spool_total_bytes(s),
                .appended = s->appended,
                .dropped_bytes_limit = s->dropped,
                .damaged = s->damaged,
                .torn = s->torn,
                .given_up = s->given_up,
                .first_seq = s->next_seq,
                .next_seq = s->next_seq,
                .synced_seq = s->synced,
        };

        for (size_t i = s->n_segments; i > 0; i--) {
                const struct segment *g = &s->segments[i - 1];
                uint64_t n = spool_segment_open_records(s, g);

                out.records += n;
                if (n > 0)
                        out.first_seq = spool_next_unsettled(s, MAX(g->first_seq, s->acked + 1));
        }
        *ret = out;
}
