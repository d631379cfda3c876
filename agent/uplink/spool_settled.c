/* SPDX-License-Identifier: Apache-2.0 */
/* Which records are done with, and what of them was lost. */
#include "spool_state.h"

uint64_t spool_next_unsettled(const struct spool *s, uint64_t seq) {
        for (size_t i = 0; i < s->n_settled && s->settled[i].from <= seq; i++)
                if (seq <= s->settled[i].to)
                        seq = s->settled[i].to + 1;
        return seq;
}

uint64_t spool_count_settled(const struct spool *s, uint64_t from, uint64_t to) {
        uint64_t n = 0;

        for (size_t i = 0; i < s->n_settled; i++) {
                uint64_t a = MAX(from, s->settled[i].from), b = MIN(to, s->settled[i].to);

                n += a <= b ? b - a + 1 : 0;
        }
        return n;
}

static void remove_settled(struct spool *s, size_t i) {
        memmove(s->settled + i, s->settled + i + 1, (--s->n_settled - i) * sizeof(*s->settled));
}

int spool_add_settled(struct spool *s, uint64_t from, uint64_t to) {
        size_t i = 0;

        while (i < s->n_settled && s->settled[i].to + 1 < from)
                i++;
        if (i < s->n_settled && s->settled[i].from <= to + 1) {
                s->settled[i].from = MIN(s->settled[i].from, from);
                s->settled[i].to = MAX(s->settled[i].to, to);
                if (i + 1 < s->n_settled && s->settled[i + 1].from <= s->settled[i].to + 1) {
                        s->settled[i].to = MAX(s->settled[i].to, s->settled[i + 1].to);
                        remove_settled(s, i + 1);
                }
        } else {
                if (s->n_settled == SPOOL_SETTLED_MAX)
                        return -ENOSPC;
                memmove(s->settled + i + 1, s->settled + i, (s->n_settled++ - i) * sizeof(*s->settled));
                s->settled[i] = (struct spool_range) { from, to };
        }
        s->ledger.changed = true;
        return 0;
}

void spool_advance(struct spool *s, uint64_t seq) {
        s->acked = MAX(s->acked, seq);
        while (s->n_settled > 0 && s->settled[0].from <= s->acked + 1) {
                s->acked = MAX(s->acked, s->settled[0].to);
                remove_settled(s, 0);
                s->ledger.changed = true;
        }
}

void spool_count_loss(struct spool *s, enum spool_loss why, const struct spool_gap *lost) {
        struct spool_gap *g = &s->ledger.open[why];
        bool first = g->records == 0 && g->items == 0;

        if (lost->records == 0 && lost->items == 0)
                return;
        g->from_seq = first ? lost->from_seq : MIN(g->from_seq, lost->from_seq);
        g->to_seq = first ? lost->to_seq : MAX(g->to_seq, lost->to_seq);
        g->records += lost->records;
        g->items += lost->items;
        s->ledger.changed = s->ledger.dirty = true;
}

void spool_count_missing(struct spool *s, uint64_t seq) {
        struct spool_gap lost = { .from_seq = s->acked + 1, .to_seq = seq - 1 };

        if (seq <= s->acked + 1)
                return;
        /* numbers that were jumped over named no record, and come in whole jumps (spool.h, Invariant) */
        lost.records = (seq - 1 - s->acked - spool_count_settled(s, s->acked + 1, seq - 1)) % SPOOL_JUMP;
        spool_count_loss(s, SPOOL_DAMAGED, &lost);
}

static void count_losses(struct spool *s, uint64_t seq, const struct spool_gap *lost) {
        for (enum spool_loss why = 0; lost && why < _SPOOL_LOSS_MAX; why++) {
                struct spool_gap one = lost[why];

                one.from_seq = one.to_seq = seq;
                spool_count_loss(s, why, &one);
        }
}

void spool_settle(struct spool *s, uint64_t seq, const struct spool_gap *lost) {
        if (seq <= s->acked || seq > s->synced)
                return;
        spool_count_missing(s, seq);
        count_losses(s, seq, lost);
        spool_advance(s, seq);
        spool_trim(s, 0);
}

bool spool_may_settle_ahead(const struct spool *s, uint64_t seq) {
        if (seq <= s->acked + 1 || seq > s->synced || spool_next_unsettled(s, seq) != seq)
                return false;
        if (s->n_settled + 1 < SPOOL_SETTLED_MAX) /* one is left for what the byte limit forces out */
                return true;
        for (size_t i = 0; i < s->n_settled; i++)
                if (s->settled[i].from <= seq + 1 && seq <= s->settled[i].to + 1)
                        return true;
        return false;
}

int spool_settle_ahead(struct spool *s, uint64_t seq, const struct spool_gap *lost) {
        int r;

        if (seq <= s->acked || seq > s->synced || spool_next_unsettled(s, seq) != seq)
                return 0;
        r = spool_add_settled(s, seq, seq);
        if (r >= 0)
                count_losses(s, seq, lost);
        return r;
}
