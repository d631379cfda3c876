/* SPDX-License-Identifier: Apache-2.0 */
/* Which segments go, and the account of what was in them. */
#include "spool_state.h"

uint64_t spool_total_bytes(const struct spool *s) {
        uint64_t sum = 0;

        for (size_t i = 0; i < s->n_segments; i++)
                sum += s->segments[i].size;
        return sum;
}

/* Segment i may go only while a younger one is on the disk: it keeps the sequence numbers. */
static bool may_drop(const struct spool *s, size_t i) {
        while (++i < s->n_segments)
                if (s->segments[i].durable)
                        return true;
        return false;
}

struct tally {
        const struct spool *s;
        const uint8_t *data;
        uint64_t from, to;
        struct spool_gap *lost;
};

static void tally_record(void *userdata, uint64_t seq, size_t offset, size_t payload_len) {
        struct tally *t = userdata;

        if (seq < t->from || seq > t->to || spool_count_settled(t->s, seq, seq) > 0)
                return;
        t->lost->records++;
        if (t->s->options.count)
                t->lost->items += t->s->options.count(t->data + offset + sizeof(struct segment_record), payload_len);
}

/* Counts what goes with segment i, which is then done with. */
static void give_account(struct spool *s, size_t i) {
        const struct segment *g = &s->segments[i];
        uint64_t from = MAX(s->acked + 1, g->first_seq), to = g->last_seq, numbers;
        struct spool_gap lost = { .from_seq = from, .to_seq = to }, damaged = lost;
        _cleanup_free_ uint8_t *data = NULL;
        struct tally t = { .s = s, .from = from, .to = to, .lost = &lost };
        struct spool_scan scan;
        size_t len;

        if (i == 0)
                spool_count_missing(s, from);
        numbers = to - from + 1 - spool_count_settled(s, from, to);
        if (segment_load(s->dir_fd, g->first_seq, &data, &len) >= 0) {
                t.data = data;
                (void) spool_scan(data, len, tally_record, &t, &scan); /* not ours any more: all of it is damaged */
        }
        damaged.records = numbers - MIN(numbers, lost.records);
        spool_count_loss(s, SPOOL_BYTE_LIMIT, &lost);
        spool_count_loss(s, SPOOL_DAMAGED, &damaged);
        s->dropped += lost.records;
        if (i == 0 || spool_add_settled(s, from, to) < 0)
                spool_advance(s, to);
}

static int drop(struct spool *s, size_t i) {
        char name[SEGMENT_NAME_MAX];
        int r = 0;

        if (s->segments[i].last_seq >= MAX(s->acked + 1, s->segments[i].first_seq))
                give_account(s, i);
        /* First the account, then the file. Where it cannot be written it is in memory, and the file goes: room is
         * needed. */
        if (s->ledger.dirty)
                (void) spool_ledger_sync(s);
        segment_name(s->segments[i].first_seq, name);
        if (unlinkat(s->dir_fd, name, 0) < 0 && errno != ENOENT)
                r = -errno;
        if (r < 0)
                return r;
        if (s->read_segment == s->segments[i].first_seq)
                spool_forget_reader(s);
        memmove(s->segments + i, s->segments + i + 1, (--s->n_segments - i) * sizeof(*s->segments));
        return 0;
}

/* The oldest segment that may go though not all of it is delivered; n_segments: none. */
static size_t oldest(const struct spool *s) {
        size_t i = 0;

        if (s->held > s->acked && s->n_segments > 0 && s->segments[0].first_seq <= s->held &&
            s->segments[0].last_seq >= s->held && s->n_settled < SPOOL_SETTLED_MAX)
                i = 1;
        return i < s->n_segments && may_drop(s, i) ? i : s->n_segments;
}

bool spool_shed(struct spool *s) {
        size_t i = oldest(s);

        return i < s->n_segments && drop(s, i) >= 0;
}

void spool_trim(struct spool *s, uint64_t wanted) {
        while (may_drop(s, 0) && s->segments[0].last_seq <= s->acked)
                if (drop(s, 0) < 0)
                        return;
        while (spool_total_bytes(s) + wanted > s->options.max_bytes)
                if (!spool_shed(s))
                        return;
}

void spool_set_limit(struct spool *s, uint64_t max_bytes) {
        s->options.max_bytes = MAX(max_bytes, 2 * s->options.segment_bytes);
        spool_trim(s, 0);
}

void spool_hold(struct spool *s, uint64_t seq) {
        s->held = seq;
        if (seq > s->acked + 1) /* else it is the oldest one, which needs no saying */
                s->ledger.changed = true;
}

uint64_t spool_held(const struct spool *s) {
        return s->held;
}
