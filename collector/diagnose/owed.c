/* SPDX-License-Identifier: Apache-2.0 */
#include "owed.h"

#include "chain.h"
#include "grow.h"
#include "weights.h"

/* Measured on healthy ranks of stalled trainings: their two times differ by up to 50 ms, those of the one
 * that is waited for by a step (400 ms and more). Younger than that nothing stands still. */
#define MARGIN_MS 60
#define STANDS_MS 500u
#define SLACK_MS 3000u /* between the ranks' own last bytes; their captures are not made at one moment */
#define ALONE 3        /* times the margin that the others have */

void debts_clear(struct debts *d) {
        free(d->edges);
        free(d->ranks);
        *d = DEBTS_NULL;
}

/* --- The connections of the steps --------------------------------------------------------------------- */

static uint32_t silence_of(const struct captured_socket *s) {
        return MIN(s->sent_ms, s->received_ms); /* SOCKET_MS_NONE is the greatest */
}

/* Between two ranks, and its times are known. */
static bool is_between(const struct evidence *e, const struct peer_end *end, uint32_t *ret_rank,
                       uint32_t *ret_node) {
        *ret_rank = evidence_rank(e, end->host, end->process);
        *ret_node = chain_node(e, end);
        return *ret_rank != STACK_NONE && *ret_node != STACK_NONE && *ret_node != *ret_rank && !end->moved &&
               silence_of(end->socket) != SOCKET_MS_NONE;
}

static int compare_times(const void *x, const void *y) {
        return COMPARE(*(const uint32_t *) x, *(const uint32_t *) y);
}

/* When most fell silent: the median, of those who did not speak just now. */
static int find_silence(const struct evidence *e, uint32_t *ret) {
        _cleanup_free_ uint32_t *times = calloc(e->peers.n + 1, sizeof(*times));
        size_t n = 0;

        if (!times)
                return -ENOMEM;
        for (size_t i = 0; i < e->peers.n; i++) {
                uint32_t rank, node;

                if (is_between(e, &e->peers.ends[i], &rank, &node) &&
                    silence_of(e->peers.ends[i].socket) >= STANDS_MS)
                        times[n++] = silence_of(e->peers.ends[i].socket);
        }
        if (n > 1)
                qsort(times, n, sizeof(*times), compare_times);
        *ret = n > 0 ? times[n / 2] : 0;
        return 0;
}

static bool is_of_steps(const struct debts *d, const struct captured_socket *s) {
        uint64_t silent = silence_of(s);

        return silent >= d->silent_ms / 2 && silent <= 2 * (uint64_t) d->silent_ms + SLACK_MS;
}

/* --- Ranks -------------------------------------------------------------------------------------------- */

struct last_times {
        uint32_t sent, received;
};

static void survey_ranks(const struct evidence *e, struct debts *d, struct last_times *last) {
        for (size_t i = 0; i < e->n_ranks; i++)
                last[i] = (struct last_times){ SOCKET_MS_NONE, SOCKET_MS_NONE };
        for (size_t i = 0; i < e->peers.n; i++) {
                const struct captured_socket *s = e->peers.ends[i].socket;
                uint32_t rank, node;

                if (!is_between(e, &e->peers.ends[i], &rank, &node) || !is_of_steps(d, s))
                        continue;
                last[rank].sent = MIN(last[rank].sent, s->sent_ms);
                last[rank].received = MIN(last[rank].received, s->received_ms);
                d->ranks[rank].unread += s->unread;
        }
        for (size_t i = 0; i < e->n_ranks; i++) {
                struct rank_debts *r = &d->ranks[i];

                r->silent_ms = MIN(last[i].sent, last[i].received);
                r->known = last[i].sent != SOCKET_MS_NONE && last[i].received != SOCKET_MS_NONE;
                r->owes_ms = r->known ? (int64_t) last[i].sent - (int64_t) last[i].received : 0;
        }
}

/* Who alone owes: by more than the margin, and by much more than all the others do. */
static void find_alone(const struct evidence *e, struct debts *d) {
        int64_t most = 0, second = 0;
        size_t who = 0, known = 0;

        for (size_t i = 0; i < e->n_ranks; i++) {
                int64_t ms = d->ranks[i].owes_ms;

                known += d->ranks[i].known;
                if (ms > most) {
                        second = most;
                        most = ms;
                        who = i;
                } else
                        second = MAX(second, ms);
        }
        d->margin_ms = MAX((int64_t) MARGIN_MS, most / 4);
        if (!d->cut && known > 1 && most > MARGIN_MS && most >= ALONE * second)
                d->ranks[who].owes = true;
}

/* --- Edges -------------------------------------------------------------------------------------------- */

static int add_edge(struct debts *d, uint32_t from, uint32_t to, double weight, uint32_t unread) {
        int r = grow(&d->edges, &d->size, d->n + 1, sizeof(*d->edges));

        if (r == 0)
                d->edges[d->n++] = (struct debt_edge){ from, to, weight, unread };
        return r;
}

/* It sends, and the other end does not read. */
static bool is_not_taken(const struct evidence *e, const struct peer_end *end) {
        return end->socket->unsent > 0 && end->peer != PEER_NONE &&
               e->peers.ends[end->peer].socket->unread > 0;
}

/* On this connection: how long before its last receipt this end last sent, as both ends see it. */
static int64_t owed_on(const struct evidence *e, const struct debts *d, const struct peer_end *end) {
        const struct captured_socket *s = end->socket,
                                     *o = end->peer != PEER_NONE ? e->peers.ends[end->peer].socket : NULL;
        uint64_t old = 2 * (uint64_t) d->silent_ms + SLACK_MS;

        if (s->sent_ms > old || s->received_ms > old) /* one direction is not used */
                return 0;
        if (o && o->sent_ms <= old && o->received_ms <= old &&
            (int64_t) o->received_ms - (int64_t) o->sent_ms < -MARGIN_MS)
                return 0; /* the other end says otherwise */
        return (int64_t) s->sent_ms - (int64_t) s->received_ms;
}

/* Not only of the steps' connections: what is sent again and again keeps the times young. */
static void find_cut(const struct evidence *e, struct debts *d) {
        for (size_t i = 0; i < e->peers.n; i++) {
                const struct peer_end *end = &e->peers.ends[i];
                uint32_t rank, node;

                if (!peer_end_lost(&e->peers, end))
                        continue;
                rank = evidence_rank(e, end->host, end->process);
                node = chain_node(e, end);
                d->cut = true;
                if (rank != STACK_NONE)
                        d->ranks[rank].cut = true;
                if (node < e->n_ranks) /* STACK_NONE is the greatest */
                        d->ranks[node].cut = true;
        }
}

static int add_edges(const struct evidence *e, struct debts *d) {
        int r = 0;

        for (size_t i = 0; i < e->peers.n && r == 0; i++) {
                const struct peer_end *end = &e->peers.ends[i];
                const struct captured_socket *s = end->socket;
                uint32_t rank, node;

                if (!is_between(e, end, &rank, &node) || !is_of_steps(d, s))
                        continue;
                if (s->unread > 0)
                        r = add_edge(d, node, rank, weight_of(WEIGHT_UNREAD), s->unread);
                if (r == 0 && is_not_taken(e, end))
                        r = add_edge(d, rank, node, weight_of(WEIGHT_UNSENT), 0);
                if (r == 0 && (!d->cut || d->ranks[rank].cut) && owed_on(e, d, end) > d->margin_ms)
                        r = add_edge(d, node, rank, weight_of(WEIGHT_OWED), 0);
        }
        return r;
}

static int compare_edges(const void *x, const void *y) {
        const struct debt_edge *a = x, *b = y;

        return COMPARE(a->from, b->from) ?: COMPARE(a->to, b->to);
}

/* Several connections of a pair are one edge: they say the same, and the surest counts. */
static void join_edges(struct debts *d) {
        size_t n = 0;

        if (d->n > 1)
                qsort(d->edges, d->n, sizeof(*d->edges), compare_edges);
        for (size_t i = 0; i < d->n; i++) {
                struct debt_edge *last = n > 0 ? &d->edges[n - 1] : NULL;

                if (last && compare_edges(last, &d->edges[i]) == 0) {
                        last->weight = MAX(last->weight, d->edges[i].weight);
                        last->unread += d->edges[i].unread;
                } else
                        d->edges[n++] = d->edges[i];
        }
        d->n = n;
}

int debts_survey(const struct evidence *e, struct debts *ret) {
        _cleanup_free_ struct last_times *last = calloc(e->n_ranks + 1, sizeof(*last));
        struct debts d = { .ranks = calloc(e->n_ranks + 1, sizeof(*d.ranks)) };
        int r = last && d.ranks ? find_silence(e, &d.silent_ms) : -ENOMEM;

        if (r == 0)
                find_cut(e, &d);
        if (r == 0 && d.silent_ms >= STANDS_MS) {
                survey_ranks(e, &d, last);
                find_alone(e, &d);
                r = add_edges(e, &d);
                join_edges(&d);
        }
        if (r < 0)
                debts_clear(&d);
        else
                *ret = d;
        return r;
}
