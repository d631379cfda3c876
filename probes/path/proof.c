/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "proof.h"

#define SEARCH_SIZES 20 /* three rounds narrow 8896 down to one */
#define SILENT_ROUNDS 5 /* eight small and nine full packets without any answer */
#define BATCH_MAX 24

struct packet {
        enum proof_kind kind;
        uint32_t size;
};

struct state {
        struct proof_target target;
        uint32_t low, high; /* largest that passed; smallest that did not, as far as is known */
        uint32_t fragment;
        int error;
        bool done, confirming, confirmed; /* confirming: this round tries again what did not pass */
        bool udp_small, udp_full;         /* was answered */
        unsigned rounds, udp_sent, udp_full_sent;
        struct packet batch[BATCH_MAX]; /* of this round */
        size_t n, at;
        bool counting, counted; /* full size passed: small ones are counted; all have had their time */
        unsigned numbers;       /* sent of those */
        uint64_t answered;      /* bits by number, from 0 */
        usec_t until; /* when the round is over; counts once all of it was sent */
};

struct sender {
        usec_t slot;
        unsigned tokens;
};

struct proof {
        struct state *states;
        size_t n, cursor;
        struct sender lanes[PROOF_LANES_MAX];
        bool started;
        usec_t deadline;
};

/* --- Rounds -------------------------------------------------------------------------------------------- */

static void put_packet(struct state *s, enum proof_kind kind, uint32_t size) {
        assert(s->n < BATCH_MAX);
        s->batch[s->n++] = (struct packet){ kind, size };
}

static void put_udp(struct state *s, uint32_t size) {
        if (s->udp_sent == PROOF_UDP_MAX)
                return;
        s->udp_sent++;
        s->udp_full_sent += size == s->target.full;
        put_packet(s, PROOF_UDP, size);
}

static void ask_direction(struct state *s) {
        if (s->udp_full)
                return;
        put_udp(s, s->target.full);
        if (!s->udp_small)
                put_udp(s, PROOF_SMALL);
        put_udp(s, s->target.full);
}

/* What is asked next follows from what is known: full size always, for a lost packet is no verdict. */
static void plan_round(struct state *s) {
        uint32_t gap = s->high - s->low;
        size_t n = MIN(SEARCH_SIZES, (size_t) gap - 1);

        s->n = s->at = 0;
        put_packet(s, PROOF_ECHO, s->target.full);
        if (s->rounds == 0)
                return;
        if (s->low == 0) { /* is anybody there at all? */
                put_packet(s, PROOF_ECHO, PROOF_SMALL);
                put_packet(s, PROOF_ECHO, s->target.full);
                put_packet(s, PROOF_ECHO, PROOF_SMALL);
                return;
        }
        for (size_t i = 1; i <= n; i++)
                put_packet(s, PROOF_ECHO, s->low + (uint32_t) (gap * i / (n + 1)));
        for (size_t i = 0; i < 3 && s->confirming; i++)
                put_packet(s, PROOF_ECHO, s->high);
        ask_direction(s);
}

/* The round is over: the smallest size of it that has not passed is the next bound. */
static void end_round(struct state *s) {
        for (size_t i = 0; i < s->n; i++)
                if (s->batch[i].kind == PROOF_ECHO && s->batch[i].size > s->low)
                        s->high = MIN(s->high, s->batch[i].size);
        s->rounds++;
        if (s->low == 0)
                s->done = s->rounds == SILENT_ROUNDS;
        else
                s->done = s->confirmed = s->confirming && s->high - s->low == 1;
        s->confirming = s->low > 0 && s->high - s->low == 1;
        plan_round(s);
}

/* --- Schedule ------------------------------------------------------------------------------------------ */

int proof_new(const struct proof_target *targets, size_t n, struct proof **ret) {
        _cleanup_(proof_freep) struct proof *p = NULL;

        if (n == 0 || n > PROOF_TARGETS_MAX)
                return -EINVAL;
        p = calloc(1, sizeof(*p));
        if (!p)
                return -ENOMEM;
        p->states = calloc(n, sizeof(*p->states));
        if (!p->states)
                return -ENOMEM;
        p->n = n;
        for (size_t i = 0; i < n; i++) {
                struct state *s = &p->states[i];

                if (targets[i].full <= PROOF_SMALL || targets[i].full > UINT16_MAX ||
                    targets[i].lane >= PROOF_LANES_MAX)
                        return -EINVAL;
                s->target = targets[i];
                s->high = targets[i].full;
                plan_round(s);
        }
        *ret = TAKE_PTR(p);
        return 0;
}

struct proof *proof_free(struct proof *p) {
        if (p)
                free(p->states);
        free(p);
        return NULL;
}

static bool take_token(struct sender *l, usec_t now) {
        if (l->slot != now / PROOF_SLOT + 1)
                *l = (struct sender){ .slot = now / PROOF_SLOT + 1, .tokens = PROOF_SLOT_PACKETS };
        if (l->tokens == 0)
                return false;
        l->tokens--;
        return true;
}

_Static_assert(PROOF_ECHOES <= 64, "each has a bit");

static bool all_answered(const struct state *s) {
        return s->answered == UINT64_MAX >> (64 - PROOF_ECHOES);
}

static void begin_counting(struct state *s) {
        s->counting = true;
        s->n = s->at = 0;
        s->until = 0;
}

/* 1: *ret is to be sent; 0: nothing before *ret_wake. */
static int next_of(struct proof *p, size_t i, usec_t now, struct proof_packet *ret, usec_t *ret_wake) {
        struct state *s = &p->states[i];

        if (s->counting && s->numbers == PROOF_ECHOES && (all_answered(s) || now >= s->until))
                s->done = s->counted = true;
        if (!s->done && !s->counting && s->at == s->n && now >= s->until)
                end_round(s);
        *ret_wake = USEC_INFINITY;
        if (s->done)
                return 0;
        if (s->counting ? s->numbers == PROOF_ECHOES : s->at == s->n) {
                *ret_wake = s->until;
                return 0;
        }
        if (!take_token(&p->lanes[s->target.lane], now)) {
                *ret_wake = (now / PROOF_SLOT + 1) * PROOF_SLOT;
                return 0;
        }
        s->until = now + PROOF_ROUND;
        if (s->counting) {
                *ret = (struct proof_packet){
                        .target = i, .kind = PROOF_ECHO, .size = PROOF_SMALL, .number = ++s->numbers
                };
                return 1;
        }
        *ret = (struct proof_packet){ .target = i,
                                      .kind = s->batch[s->at].kind,
                                      .size = s->batch[s->at].size };
        s->at++;
        return 1;
}

int proof_next(struct proof *p, usec_t now, struct proof_packet *ret, usec_t *ret_wake) {
        usec_t wake = USEC_INFINITY;

        if (!p->started)
                p->deadline = now + PROOF_DEADLINE;
        p->started = true;
        if (now >= p->deadline)
                for (size_t i = 0; i < p->n; i++)
                        p->states[i].done = true;
        for (size_t k = 0; k < p->n; k++) {
                size_t i = (p->cursor + k) % p->n;
                usec_t own;

                if (next_of(p, i, now, ret, &own) > 0) {
                        /* Peer by peer, so that the first ones' answers are waited for while the last ones
                         * are asked. */
                        p->cursor = i;
                        return 1;
                }
                wake = MIN(wake, own);
        }
        *ret_wake = wake == USEC_INFINITY ? wake : MIN(wake, p->deadline);
        return 0;
}

/* --- Answers ------------------------------------------------------------------------------------------- */

void proof_answered(struct proof *p, const struct proof_packet *packet, uint32_t fragment) {
        struct state *s;

        if (packet->target >= p->n || packet->size < PROOF_SMALL ||
            packet->size > p->states[packet->target].target.full)
                return;
        s = &p->states[packet->target];
        if (packet->kind == PROOF_UDP) {
                s->udp_small |= packet->size == PROOF_SMALL;
                s->udp_full |= packet->size == s->target.full;
                return;
        }
        if (packet->number > 0) {
                if (packet->number <= s->numbers && packet->size == PROOF_SMALL)
                        s->answered |= UINT64_C(1) << (packet->number - 1);
                return;
        }
        if (packet->size == s->target.full) {
                s->low = s->target.full;
                s->fragment = fragment;
                if (fragment > 0)
                        s->done = true;
                else if (!s->done && !s->counting)
                        begin_counting(s);
        } else if (fragment == 0 && packet->size > s->low) {
                s->low = packet->size;
                /* What was taken for too large was only lost. */
                if (s->low >= s->high)
                        s->high = s->target.full;
        }
}

void proof_refused(struct proof *p, const struct proof_packet *packet, int error) {
        assert(packet->target < p->n);
        p->states[packet->target].error = error;
        p->states[packet->target].done = true;
}

void proof_result(const struct proof *p, size_t target, struct proof_result *ret) {
        const struct state *s = &p->states[target];
        struct proof_result r = { .passes = s->low, .exact = s->confirmed, .error = s->error };

        assert(target < p->n);
        if (s->low == s->target.full) {
                r.answer = s->fragment > 0 ? PROOF_PIECES : PROOF_PASSES;
                r.passes = s->fragment > 0 ? s->fragment : s->low;
        } else if (s->error < 0)
                r.answer = PROOF_REFUSED;
        else if (!s->done)
                r.answer = PROOF_OPEN;
        else
                r.answer = s->low > 0 ? PROOF_SMALLER : PROOF_SILENT;
        if (r.answer == PROOF_SMALLER && s->udp_full)
                r.direction = PROOF_BACK;
        else if (r.answer == PROOF_SMALLER && s->udp_small && s->udp_full_sent >= 3)
                r.direction = PROOF_THERE;
        if (s->counted) {
                r.echoes = PROOF_ECHOES;
                r.lost = PROOF_ECHOES - (unsigned) __builtin_popcountll(s->answered);
        }
        *ret = r;
}
