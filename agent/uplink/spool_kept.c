/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept: read, settled, removed when it is done with or the byte limit forces it out. */
#include "spool_inside.h"

struct ledger *spool_ledger(struct spool *s) {
        return &s->ledger;
}

static uint64_t total_bytes(const struct spool *s) {
        uint64_t sum = 0;

        for (size_t i = 0; i < s->segments.n; i++)
                sum += s->segments.list[i].size;
        return sum;
}

/* Readable records of g that are not done with. */
static uint64_t open_records(const struct spool *s, const struct segment *g) {
        uint64_t from = MAX(s->ledger.acked + 1, g->first_seq), n;

        if (g->last_seq < from)
                return 0;
        n = MIN(g->records, g->last_seq + 1 - from);
        return n - MIN(n, ledger_count(&s->ledger, from, g->last_seq));
}

void spool_get_stats(const struct spool *s, struct spool_stats *ret) {
        struct spool_stats out = {
                .bytes = total_bytes(s),
                .appended = s->appended,
                .dropped_bytes_limit = s->dropped,
                .damaged = s->damaged,
                .torn = s->torn,
                .given_up = s->given_up,
                .first_seq = s->next_seq,
                .next_seq = s->next_seq,
                .synced_seq = s->synced,
        };

        for (size_t i = s->segments.n; i > 0; i--) {
                const struct segment *g = &s->segments.list[i - 1];
                uint64_t n = open_records(s, g);

                out.records += n;
                if (n > 0)
                        out.first_seq = ledger_next(&s->ledger, MAX(g->first_seq, s->ledger.acked + 1));
        }
        *ret = out;
}

int spool_read(struct spool *s, uint64_t after, void *buf, size_t size, size_t *ret_len, uint64_t *ret_seq) {
        uint64_t want = ledger_next(&s->ledger, MAX(after, s->ledger.acked) + 1), seq;

        for (size_t i = 0; i < s->segments.n && want <= s->synced; i++) {
                struct segment *g = &s->segments.list[i];

                while (g->last_seq >= MAX(want, g->first_seq) && g->records > 0) {
                        int r = segment_read(&s->reader, s->dir_fd, g, want, s->synced, buf, size, ret_len,
                                             &seq, &s->damaged);

                        if (r < 0)
                                return r;
                        if (r == 0)
                                break;
                        want = ledger_next(&s->ledger, seq);
                        if (want == seq) {
                                *ret_seq = seq;
                                return 1;
                        }
                }
        }
        return 0;
}

/* --- What is done with ------------------------------------------------------------------------------- */

static bool may_settle(const struct spool *s, uint64_t seq) {
        return seq > s->ledger.acked && seq <= s->synced && ledger_next(&s->ledger, seq) == seq;
}

void spool_settle(struct spool *s, uint64_t seq, const struct spool_gap *lost) {
        if (seq <= s->ledger.acked || seq > s->synced)
                return;
        ledger_lose_before(&s->ledger, seq);
        ledger_lose_of(&s->ledger, seq, lost);
        ledger_advance(&s->ledger, seq);
        spool_trim(s, 0);
}

bool spool_may_settle_ahead(const struct spool *s, uint64_t seq) {
        return seq > s->ledger.acked + 1 && may_settle(s, seq) && ledger_may_add(&s->ledger, seq);
}

int spool_settle_ahead(struct spool *s, uint64_t seq, const struct spool_gap *lost) {
        int r;

        if (!may_settle(s, seq))
                return 0;
        r = ledger_add(&s->ledger, seq, seq);
        if (r >= 0)
                ledger_lose_of(&s->ledger, seq, lost);
        return r;
}

void spool_hold(struct spool *s, uint64_t seq) {
        s->ledger.held = seq;
        if (seq > s->ledger.acked + 1) /* else it is the oldest one, which needs no saying */
                s->ledger.changed = true;
}

uint64_t spool_held(const struct spool *s) {
        return s->ledger.held;
}

/* --- What goes --------------------------------------------------------------------------------------- */

/* Segment i may go only while a younger one is on the disk: it keeps the sequence numbers. */
static bool may_drop(const struct spool *s, size_t i) {
        while (++i < s->segments.n)
                if (s->segments.list[i].durable)
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

        if (seq < t->from || seq > t->to || ledger_count(&t->s->ledger, seq, seq) > 0)
                return;
        t->lost->records++;
        if (t->s->options.count)
                t->lost->items += t->s->options.count(t->data + offset + sizeof(struct segment_record),
                                                      payload_len);
}

/* Counts what goes with segment i, which is then done with. */
static void give_account(struct spool *s, size_t i) {
        const struct segment *g = &s->segments.list[i];
        uint64_t from = MAX(s->ledger.acked + 1, g->first_seq), to = g->last_seq, numbers;
        struct spool_gap lost = { .from_seq = from, .to_seq = to }, damaged = lost;
        _cleanup_free_ uint8_t *data = NULL;
        struct tally t = { .s = s, .from = from, .to = to, .lost = &lost };
        struct spool_scan scan;
        size_t len;

        if (i == 0)
                ledger_lose_before(&s->ledger, from);
        numbers = to - from + 1 - ledger_count(&s->ledger, from, to);
        if (segment_load(s->dir_fd, g->first_seq, &data, &len) >= 0) {
                t.data = data;
                /* where it is not ours any more, all of it is damaged */
                (void) spool_scan(data, len, tally_record, &t, &scan);
        }
        damaged.records = numbers - MIN(numbers, lost.records);
        ledger_lose(&s->ledger, SPOOL_BYTE_LIMIT, &lost);
        ledger_lose(&s->ledger, SPOOL_DAMAGED, &damaged);
        s->dropped += lost.records;
        if (i == 0 || ledger_add(&s->ledger, from, to) < 0)
                ledger_advance(&s->ledger, to);
}

static int drop_segment(struct spool *s, size_t i) {
        struct segment *g = &s->segments.list[i];
        int r;

        if (g->last_seq >= MAX(s->ledger.acked + 1, g->first_seq))
                give_account(s, i);
        /* First the account, then the file: also where the account is in memory only, as room is needed. */
        if (s->ledger.dirty)
                (void) ledger_sync(&s->ledger);
        r = segment_remove(s->dir_fd, g);
        if (r < 0)
                return r;
        if (s->reader.segment == g->first_seq)
                segment_reader_forget(&s->reader);
        memmove(g, g + 1, (--s->segments.n - i) * sizeof(*g));
        return 0;
}

/* The oldest segment that may go though not all of it is delivered; n_segments: none. */
static size_t oldest_droppable(const struct spool *s) {
        size_t i = 0;

        if (s->ledger.held > s->ledger.acked && s->segments.n > 0 &&
            s->segments.list[0].first_seq <= s->ledger.held &&
            s->segments.list[0].last_seq >= s->ledger.held && s->ledger.n_settled < LEDGER_SETTLED_MAX)
                i = 1;
        return i < s->segments.n && may_drop(s, i) ? i : s->segments.n;
}

bool spool_shed(struct spool *s) {
        size_t i = oldest_droppable(s);

        return i < s->segments.n && drop_segment(s, i) >= 0;
}

void spool_trim(struct spool *s, uint64_t wanted) {
        while (may_drop(s, 0) && s->segments.list[0].last_seq <= s->ledger.acked)
                if (drop_segment(s, 0) < 0)
                        return;
        while (total_bytes(s) + wanted > s->options.max_bytes)
                if (!spool_shed(s))
                        return;
}

void spool_set_limit(struct spool *s, uint64_t max_bytes) {
        s->options.max_bytes = MAX(max_bytes, 2 * s->options.segment_bytes);
        spool_trim(s, 0);
}
