/* SPDX-License-Identifier: Apache-2.0 */
#include "circle.h"

#include "chain.h"

#define ALONE 3 /* times what the others owe */

/* What one rank has had of another. */
struct heard {
        uint32_t from;
        uint32_t ms; /* since the last of it; SOCKET_MS_NONE */
        uint64_t bytes;
};

static int compare_heard(const void *x, const void *y) {
        const struct heard *a = x, *b = y;

        return COMPARE(a->from, b->from);
}

/* Each once. */
static size_t join_heard(struct heard *list, size_t n) {
        size_t joined = 0;

        if (n > 1)
                qsort(list, n, sizeof(*list), compare_heard);
        for (size_t i = 0; i < n; i++) {
                struct heard *last = joined > 0 ? &list[joined - 1] : NULL;

                if (last && last->from == list[i].from) {
                        last->ms = MIN(last->ms, list[i].ms);
                        last->bytes += list[i].bytes;
                } else
                        list[joined++] = list[i];
        }
        return joined;
}

/* Of all who wait for `to` alone, as its own sockets have it: one host's clock, at one moment. */
static int hear(const struct evidence *e, const uint32_t *next, uint32_t to, struct heard **ret,
                size_t *ret_n) {
        uint32_t host = e->ranks[to].host, first = e->peers.first[host], end = e->peers.first[host + 1];
        struct heard *list = calloc(end - first + 1, sizeof(*list));
        size_t n = 0;

        if (!list)
                return -ENOMEM;
        for (uint32_t i = first; i < end; i++) {
                const struct peer_end *p = &e->peers.ends[i];
                uint32_t from = chain_node(e, p);

                if (from != STACK_NONE && next[from] == to && evidence_rank(e, host, p->process) == to)
                        list[n++] = (struct heard){ from, p->socket->received_ms,
                                                    p->socket->bytes_received };
        }
        *ret = list;
        *ret_n = join_heard(list, n);
        return 0;
}

/* 1: `from` gave less than all the others who wait for `to`, and the last of it was there before theirs. */
static int is_late(const struct evidence *e, const uint32_t *next, uint32_t from, uint32_t to) {
        _cleanup_free_ struct heard *list = NULL;
        struct heard own = { .ms = 0 };
        uint64_t least = UINT64_MAX;
        uint32_t oldest = 0;
        size_t n;
        int r = hear(e, next, to, &list, &n);

        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                if (list[i].from == from) {
                        own = list[i];
                        continue;
                }
                least = MIN(least, list[i].bytes);
                oldest = MAX(oldest, list[i].ms);
        }
        return n > 2 && own.bytes < least && own.ms > oldest;
}

/* By how much longer ago a rank last sent to its neighbours in the circle than it received from them. */
static int64_t owed_in_circle(const struct evidence *e, uint32_t before, uint32_t rank, uint32_t after) {
        uint32_t host = e->ranks[rank].host, sent = SOCKET_MS_NONE, received = SOCKET_MS_NONE;

        for (uint32_t i = e->peers.first[host]; i < e->peers.first[host + 1]; i++) {
                const struct peer_end *p = &e->peers.ends[i];
                uint32_t node = chain_node(e, p);

                if ((node != before && node != after) || evidence_rank(e, host, p->process) != rank)
                        continue;
                sent = MIN(sent, p->socket->sent_ms);
                received = MIN(received, p->socket->received_ms);
        }
        if (sent == SOCKET_MS_NONE || received == SOCKET_MS_NONE)
                return 0;
        return (int64_t) sent - (int64_t) received;
}

/* What tells the ranks of a circle apart: who it is, by each. */
struct told {
        uint32_t late, debtor, slow, other; /* STACK_NONE: nobody */
        int64_t most, second;               /* owed */
        uint64_t least;                     /* step */
        size_t n, n_late, at_least, with_step, others;
};

static void tell_step(const struct evidence *e, uint32_t rank, struct told *t) {
        const struct host_capture *c = e->hosts[e->ranks[rank].host].last;
        uint64_t step = c ? c->step : CAPTURE_STEP_NONE;

        t->with_step += step != CAPTURE_STEP_NONE;
        t->at_least = step < t->least ? 1 : t->at_least + (step == t->least);
        t->slow = step < t->least ? rank : t->slow;
        t->least = MIN(t->least, step);
}

static void tell_owed(int64_t owes, uint32_t rank, struct told *t) {
        t->second = owes > t->most ? t->most : MAX(t->second, owes);
        t->debtor = owes > t->most ? rank : t->debtor;
        t->most = MAX(t->most, owes);
}

/* Who is late may be one whose turn has not come: the rank that it waits for owes it. Then it is late if
 * it stands elsewhere than its like, and the other one is behind if it does not. Where places tell nothing,
 * nobody is. */
static void settle_late(const struct evidence *e, const uint32_t *next, int64_t margin, struct told *t) {
        uint32_t other = t->n_late == 1 ? next[t->late] : STACK_NONE;
        bool as_most = t->n_late == 1 && e->ranks[t->late].alike == ALIKE_MOST;

        if (t->n_late != 1 || t->debtor != other || t->most <= margin)
                return;
        if (as_most)
                t->n_late = 0;
        if (as_most && e->ranks[other].alike == ALIKE_MOST)
                t->debtor = STACK_NONE;
}

static enum circle_by decide(const struct told *t, int64_t margin, uint32_t *ret) {
        bool owes = t->debtor != STACK_NONE && t->most > margin && t->most >= ALONE * t->second;
        enum circle_by by = t->n_late == 1                         ? CIRCLE_LATE
                            : owes                                 ? CIRCLE_OWES
                            : t->at_least == 1 && t->with_step > 1 ? CIRCLE_STEP
                            : t->others == 1 && t->n > 2           ? CIRCLE_PLACE
                                                                   : CIRCLE_NOBODY;
        const uint32_t who[] = { *ret, t->late, t->debtor, t->slow, t->other };

        *ret = who[by];
        return by;
}

int circle_behind(const struct evidence *e, const struct debts *d, const uint32_t *next, uint32_t first,
                  uint32_t *ret) {
        struct told t = { STACK_NONE, STACK_NONE, STACK_NONE, STACK_NONE, .least = CAPTURE_STEP_NONE };
        uint32_t i = first;

        do { /* from before to i, and on */
                uint32_t before = i;
                int late;

                i = next[before];
                late = is_late(e, next, i, next[i]);
                if (late < 0)
                        return late;
                t.n++;
                t.n_late += (size_t) late;
                t.late = late ? i : t.late;
                tell_owed(owed_in_circle(e, before, i, next[i]), i, &t);
                tell_step(e, i, &t);
                if (e->ranks[i].alike != ALIKE_MOST) {
                        t.others++;
                        t.other = i;
                }
        } while (i != first);
        settle_late(e, next, d->margin_ms, &t);
        return (int) decide(&t, d->margin_ms, ret);
}
