/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Trainings in small: ranks that compute, send and receive in their order, one
 * step after the other, until one of them does not get on. What its sockets
 * would show is kept of each connection. Nothing here knows what the product
 * makes of it.
 */
#include "test.h"

#define RANKS_MAX 16u
#define OPS_MAX 96u

enum op_kind { COMPUTE, SEND, RECEIVE };
struct op {
        enum op_kind kind;
        uint32_t peer;
        double seconds; /* COMPUTE: how long, on average */
};
struct rank_program {
        struct op ops[OPS_MAX];
        size_t n;
};

enum pattern { RING, STAR, STAR_IN_TURN, TREE, ALL_TO_ALL, DOUBLING, PIPELINE, _PATTERN_MAX };
static const char *const pattern_names[_PATTERN_MAX] = {
        "ring", "star", "star in turn", "tree", "all to all", "doubling", "pipeline",
};

struct wire {                              /* from one rank to another */
        double sent, arrived, arrivals[8]; /* s; sent < 0: never. arrivals: of what is
                                              not received yet */
        unsigned waiting, messages;
};
/* What happened on a wire, in the order in which each rank made it happen. */
struct wire_event {
        double at;
        uint32_t host, peer;
        bool arrives; /* at host from peer; else sent by it */
};
struct training {
        struct wire_event *events; /* NULL: they are not kept */
        size_t n_events, most_events;
        uint32_t n;
        struct rank_program programs[RANKS_MAX];
        struct wire wires[RANKS_MAX][RANKS_MAX];
        double now[RANKS_MAX], step_done[RANKS_MAX], factor[RANKS_MAX];
        size_t at[RANKS_MAX], steps[RANKS_MAX];
        double latency, transfer, jitter;
        uint64_t seed;
};

static inline double any(struct training *t) { /* 0 to 1; xorshift64* */
        t->seed ^= t->seed >> 12;
        t->seed ^= t->seed << 25;
        t->seed ^= t->seed >> 27;
        return (double) ((t->seed * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

static inline void op(struct rank_program *p, enum op_kind kind, uint32_t peer, double seconds) {
        ASSERT_TRUE(p->n < OPS_MAX);
        p->ops[p->n++] = (struct op){ kind, peer, seconds };
}

static inline void program_tree(struct training *t, uint32_t r, double compute) {
        struct rank_program *p = &t->programs[r];

        op(p, COMPUTE, 0, compute);
        for (uint32_t c = 2 * r + 1; c <= 2 * r + 2 && c < t->n; c++)
                op(p, RECEIVE, c, 0);
        if (r > 0) {
                op(p, SEND, (r - 1) / 2, 0);
                op(p, RECEIVE, (r - 1) / 2, 0);
        }
        for (uint32_t c = 2 * r + 1; c <= 2 * r + 2 && c < t->n; c++)
                op(p, SEND, c, 0);
}

static inline void program_star(struct training *t, uint32_t r, double compute, bool in_turn) {
        struct rank_program *p = &t->programs[r];

        if (r > 0) {
                op(p, SEND, 0, 0); /* asks for the weights */
                op(p, RECEIVE, 0, 0);
                op(p, COMPUTE, 0, compute);
                op(p, SEND, 0, 0);
                return;
        }
        for (uint32_t w = 1; w < t->n; w++) {
                op(p, RECEIVE, w, 0);
                if (in_turn)
                        op(p, SEND, w, 0);
        }
        for (uint32_t w = 1; w < t->n && !in_turn; w++)
                op(p, SEND, w, 0);
        for (uint32_t w = 1; w < t->n; w++)
                op(p, RECEIVE, w, 0);
        op(p, COMPUTE, 0, compute / 10);
}

static inline void program_of(struct training *t, enum pattern k, uint32_t r, double compute) {
        struct rank_program *p = &t->programs[r];
        uint32_t n = t->n;

        switch (k) {
        case RING:
                op(p, COMPUTE, 0, compute);
                for (uint32_t i = 0; i < 2 * (n - 1); i++) {
                        op(p, SEND, (r + 1) % n, 0);
                        op(p, RECEIVE, (r + n - 1) % n, 0);
                }
                break;
        case STAR:
        case STAR_IN_TURN:
                program_star(t, r, compute, k == STAR_IN_TURN);
                break;
        case TREE:
                program_tree(t, r, compute);
                break;
        case ALL_TO_ALL:
                op(p, COMPUTE, 0, compute);
                for (uint32_t i = 1; i < n; i++)
                        op(p, SEND, (r + i) % n, 0);
                for (uint32_t i = 1; i < n; i++)
                        op(p, RECEIVE, (r + n - i) % n, 0);
                break;
        case DOUBLING:
                op(p, COMPUTE, 0, compute);
                for (uint32_t d = 1; d < n; d *= 2) {
                        op(p, SEND, r ^ d, 0);
                        op(p, RECEIVE, r ^ d, 0);
                }
                break;
        case PIPELINE:
                for (unsigned batch = 0; batch < 2; batch++) {
                        if (r > 0)
                                op(p, RECEIVE, r - 1, 0);
                        op(p, COMPUTE, 0, compute / 4);
                        if (r + 1 < n)
                                op(p, SEND, r + 1, 0);
                }
                for (unsigned batch = 0; batch < 2; batch++) {
                        if (r + 1 < n)
                                op(p, RECEIVE, r + 1, 0);
                        op(p, COMPUTE, 0, compute / 4);
                        if (r > 0)
                                op(p, SEND, r - 1, 0);
                }
                break;
        case _PATTERN_MAX:
                break;
        }
}

static inline void training_begin(struct training *t, enum pattern k, uint32_t n, double compute,
                                  uint64_t seed) {
        *t = (struct training){ .n = n, .seed = seed * 2654435761U + 88172645463325252U };
        t->latency = 0.0001 + 0.0009 * any(t);
        t->transfer = 0.0005 + 0.008 * any(t);
        t->jitter = 0.02 + 0.1 * any(t);
        for (uint32_t r = 0; r < n; r++) {
                t->factor[r] = 1;
                program_of(t, k, r, compute);
                for (uint32_t p = 0; p < n; p++)
                        t->wires[r][p].sent = t->wires[r][p].arrived = -1;
        }
}

static inline void keep_event(struct training *t, struct wire_event e) {
        if (t->n_events < t->most_events)
                t->events[t->n_events++] = e;
}

/* One operation of a rank. False: it waits, or has made all its steps, or is
 * the one that stands. */
static inline bool rank_moves(struct training *t, uint32_t r, size_t steps, uint32_t struck,
                              size_t stands_at) {
        const struct rank_program *p = &t->programs[r];
        const struct op *o = &p->ops[t->at[r]];
        struct wire *w;

        if (r == struck ? t->steps[r] == steps && t->at[r] == stands_at : t->steps[r] > steps)
                return false;
        if (o->kind == COMPUTE)
                t->now[r] += o->seconds * t->factor[r] * (1 + t->jitter * (any(t) - 0.5));
        else if (o->kind == SEND) {
                w = &t->wires[r][o->peer];
                if (w->waiting == ELEMENTSOF(w->arrivals))
                        return false; /* the peer's buffer is full */
                t->now[r] += t->transfer;
                w->sent = t->now[r];
                w->arrived = t->now[r] + t->latency;
                w->arrivals[w->waiting++] = w->arrived;
                w->messages++;
                keep_event(t, (struct wire_event){ w->sent, r, o->peer, false });
                keep_event(t, (struct wire_event){ w->arrived, o->peer, r, true });
        } else {
                w = &t->wires[o->peer][r];
                if (w->waiting == 0)
                        return false;
                t->now[r] = MAX(t->now[r], w->arrivals[0]);
                memmove(w->arrivals, w->arrivals + 1, sizeof(w->arrivals) - sizeof(w->arrivals[0]));
                w->waiting--;
        }
        if (++t->at[r] == p->n) {
                t->at[r] = 0;
                t->steps[r]++;
                t->step_done[r] = t->now[r];
        }
        return true;
}

/* So many whole steps; then the struck rank makes no more than its first
 * stands_at operations. */
static inline void training_run(struct training *t, size_t steps, uint32_t struck, size_t stands_at) {
        for (bool moves = true; moves;) {
                moves = false;
                for (uint32_t r = 0; r < t->n; r++)
                        while (rank_moves(t, r, steps, struck, stands_at))
                                moves = true;
        }
}
