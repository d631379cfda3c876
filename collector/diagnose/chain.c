/* SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"

#include <sys/socket.h>

#include "wait_ends.h"
#include "weights.h"

#define BUDGET 16384u /* steps of one host, those tried in vain counted; each of its ranks has its share */
#define BUDGET_MIN 64u
#define WAITS_MAX 64u   /* of one thread that are followed */
#define HOLDERS_MAX 16u /* of one object */
#define LISTENS 10u

struct follower {
        const struct evidence *e;
        const struct host_capture *c;
        uint32_t host, rank;
        unsigned budget;
        bool within; /* it is known to hold itself up: one of its threads is why, wherever it stands */
};

/* --- Ends --------------------------------------------------------------------------------------------- */

/* Which of several ends says most: one that ends for sure, then another rank, then what may be. */
static double value_of(const struct wait_chain *c) {
        switch (c->end) {
        case END_HERE:
                return c->kind == WAIT_TIMER || c->kind == WAIT_EVENTFD || c->kind == WAIT_DEVICE ? 0.3
                       : c->solid ? 1 + c->weight
                                  : c->weight;
        case END_CIRCLE:
        case END_OUTSIDE:
                return 1 + c->weight;
        case END_RANKS: /* of several that are watched, a helper that does not wait for this one says more */
                return c->certain ? 1.1 : 0.7;
        case END_PATH:
                return 1.1;
        case END_OTHERS:
                return 0.2;
        case END_UNKNOWN:
                return (c->odd ? 0.9 : 0.1) * c->weight;
        }
        return 0;
}

static struct wait_chain *end_here(struct wait_chain *c, uint8_t kind) {
        c->end = END_HERE;
        c->kind = kind;
        c->weight = weight_of_end(kind, c->stuck);
        return c;
}

static void end_outside(struct wait_chain *c, uint8_t kind, uint32_t what) {
        end_here(c, kind)->end = END_OUTSIDE;
        c->outside = what;
        c->weight = weight_of(WEIGHT_OUTSIDE);
}

static void end_unknown(struct wait_chain *c, uint8_t kind) {
        end_here(c, kind)->end = END_UNKNOWN;
        c->solid = false;
}

static void keep_better(struct wait_chain *best, const struct wait_chain *c) {
        if (best->n == 0 || value_of(c) > value_of(best))
                *best = *c;
}

uint32_t chain_node(const struct evidence *e, const struct peer_end *end) {
        const struct seen_host *h;
        uint32_t rank;

        if (end->peer_host == PEER_NONE)
                return STACK_NONE;
        h = &e->hosts[end->peer_host];
        rank = end->peer != PEER_NONE ? evidence_rank(e, end->peer_host, e->peers.ends[end->peer].process)
                                      : STACK_NONE;
        if (rank != STACK_NONE)
                return rank;
        return h->n_ranks > 0 ? h->first_rank : (uint32_t) e->n_ranks + end->peer_host;
}

static void add_target(struct wait_chain *c, uint32_t node) {
        for (uint32_t i = 0; i < c->n_ranks; i++)
                if (c->ranks[i] == node)
                        return;
        if (c->n_ranks < CHAIN_RANKS_MAX)
                c->ranks[c->n_ranks++] = node;
}

/* --- Threads ------------------------------------------------------------------------------------------ */

static void follow_thread(struct follower *f, const struct captured_process *p,
                          const struct captured_thread *t, struct wait_chain *c);

/* It came back to a thread that it has passed. If each of them waits for the next one alone, they are stuck.
 * If one watches several, whoever waits for that one only serves it; and so does a reader that is held for
 * the holder of a lock by structure alone. */
static void end_circle(struct wait_chain *c, uint8_t kind, const struct captured_thread *t) {
        const struct captured_wait *w = c->steps[c->n - 1].wait;
        bool reader = w && (w->kind == WAIT_PIPE || w->kind == WAIT_SOCKET);
        uint32_t i = 0;

        while (c->steps[i].thread != t)
                i++;
        while (i < c->n && !(c->steps[i].wait && c->steps[i].wait->any) && !(reader && c->steps[i].guessed))
                i++;
        end_here(c, kind)->end = i < c->n ? END_UNKNOWN : END_CIRCLE;
        c->weight = i < c->n ? 0 : weight_of(WEIGHT_CYCLE);
}

static bool has_step(const struct wait_chain *c, const struct captured_thread *t) {
        for (uint32_t i = 0; i < c->n; i++)
                if (c->steps[i].thread == t)
                        return true;
        return false;
}

/* What a thread leads to that stands elsewhere than its like, where that says more than best does. most: for
 * a thread that stands as its own like do, so that only what is plain counts. Of one that came to its wait
 * between the captures, and of one that moved itself, only what runs on or is tried again counts. */
static void try_odd_thread(struct follower *f, const struct captured_process *p,
                           const struct captured_thread *t, bool most, const struct wait_chain *c,
                           struct wait_chain *best) {
        const struct seen_host *h = &f->e->hosts[f->host];
        struct wait_chain next = *c;
        enum alike alike;

        if (has_step(c, t) || t->stack == STACK_NONE || t->changed ||
            ((c->moved || thread_moved(h, p, t)) && (most || !thread_stays(f->e, f->host, p, t))))
                return;
        alike = evidence_alike(f->e, f->host, p, t);
        if (alike == ALIKE_MOST || alike == ALIKE_NEAR || (most && alike != ALIKE_ODD))
                return;
        follow_thread(f, p, t, &next);
        if (next.end == END_RANKS || next.end == END_OTHERS ||
            (next.kind == WAIT_TIMER && next.n == c->n + 1)) /* it sleeps itself: it looks now and then */
                return;
        if (most && (next.end == END_UNKNOWN || next.kind == KIND_CPU || next.kind == WAIT_LOCK))
                return;
        next.odd = p->pid != f->e->ranks[f->rank].pid && alike == ALIKE_ODD;
        next.solid = false;
        next.weight *= most ? weight_of(WEIGHT_SIDE) : 1;
        /* of equals the first thread by number, whatever their order */
        if (best->n == 0 || value_of(&next) > value_of(best) ||
            (value_of(&next) == value_of(best) && t->tid < best->steps[c->n].thread->tid))
                *best = next;
}

/* The threads that may hold what nobody says who holds: of the process, and of those that were started
 * later, for a parent waits for its children more often than they for it; where processes share it, of all.
 * A rank that waits as most do is held up by no child of its own, unless the kernel alone says what it waits
 * for. Nor is one that waits on a pipe or a socket, whose ends are known. */
static void follow_odd_threads(struct follower *f, const struct captured_process *p,
                               const struct captured_thread *t, struct wait_chain *c) {
        struct wait_chain best = { .n = 0 };
        bool most = !f->within && (c->n == 1 ? f->e->ranks[f->rank].alike == ALIKE_MOST
                                             : evidence_alike(f->e, f->host, p, t) == ALIKE_MOST);
        const struct captured_wait *w = t->n_waits == 1 ? &f->c->waits[t->first_wait] : NULL;
        bool shared = w && w->kind == WAIT_LOCK && w->space != 0,
             others = t->n_waits == 0 || (!most && w && (w->kind == WAIT_LOCK || w->kind == WAIT_EVENTFD)),
             guessed = c->n > 1 && c->steps[c->n - 2].process == p && c->steps[c->n - 2].guessed;

        c->steps[c->n - 1].guessed = true;
        for (size_t i = 0; i < f->c->n_processes; i++) {
                const struct captured_process *q = &f->c->processes[i];

                if (q == p ? guessed : !shared && (!others || q->pid < p->pid))
                        continue;
                for (uint32_t k = 0; k < q->n_threads && f->budget > 0 && c->n < CHAIN_STEPS_MAX; k++)
                        try_odd_thread(f, q, &f->c->threads[q->first_thread + k], most, c, &best);
        }
        if (best.n > 0)
                *c = best;
        else
                c->steps[c->n - 1].guessed = false;
}

static void follow_process(struct follower *f, const struct captured_process *p, struct wait_chain *c) {
        const struct captured_thread *t = captured_main_of(f->c, p);

        if (t)
                follow_thread(f, p, t, c);
        else {
                if (c->n < CHAIN_STEPS_MAX)
                        c->steps[c->n++] = (struct chain_step){ .process = p };
                if (p->error && !strchr("TtZX", p->state ? p->state : ' '))
                        end_unknown(c, KIND_UNKNOWN); /* that it could not be read says nothing of it */
                else
                        end_here(c, p->state == 'T' || p->state == 't' ? WAIT_STOPPED : KIND_ENDED);
        }
}

/* --- One wait ----------------------------------------------------------------------------------------- */

static void follow_lock(struct follower *f, const struct captured_process *p, const struct captured_wait *w,
                        struct wait_chain *c) {
        const struct captured_process *q = w->holder_pid > 0 ? captured_process_of(f->c, w->holder_pid) : p;
        const struct captured_thread *t = q ? captured_thread_of(f->c, q, w->holder_tid) : NULL;

        if (t && has_step(c, t))
                end_circle(c, w->kind, t);
        else if (t)
                follow_thread(f, q, t, c);
        else if (w->holder_tid > 0 || (w->holder_pid > 0 && !q))
                (void) end_here(c, w->kind); /* who held it is gone, or is none of the run */
        else
                end_unknown(c, w->kind);
}

/* Who has the other end of a pipe, a Unix socket, an eventfd: of several the one that says most. */
static void follow_ends(struct follower *f, const struct captured_process *p, const struct captured_wait *w,
                        uint64_t number, struct wait_chain *c) {
        struct wait_chain best = { .n = 0 };
        unsigned n = 0, listed = 0;

        if (wait_is_for_the_end(f->c, p, w)) {
                end_unknown(c, w->kind);
                return;
        }
        for (size_t i = 0; i < f->c->n_ends && n < HOLDERS_MAX && number != 0; i++) {
                const struct captured_end *e = &f->c->ends[i];
                const struct captured_process *q;
                struct wait_chain next = *c;

                listed += e->kind == w->kind && e->number == number;
                if (!wait_end_is_other(e, w, number) || e->pid == p->pid)
                        continue;
                n++;
                q = captured_process_of(f->c, e->pid);
                if (q)
                        follow_process(f, q, &next);
                else
                        end_outside(&next, w->kind, e->command);
                keep_better(&best, &next);
        }
        if (best.n > 0)
                *c = best;
        else if (w->kind == WAIT_PIPE && listed > 0) {
                end_here(c, p->children_gone > 0 ? WAIT_CHILD : WAIT_PIPE)->deserted = true;
                c->weight = weight_of(WEIGHT_OUTSIDE);
        } else
                end_unknown(c, w->kind);
}

static const struct captured_socket *unix_end_of(const struct follower *f, const struct captured_process *p,
                                                 const struct captured_socket *s) {
        for (uint32_t i = 0; i < p->n_sockets; i++)
                if (wait_end_of_unix(s, &f->c->sockets[p->first_socket + i]))
                        return &f->c->sockets[p->first_socket + i];
        return NULL;
}

/* Of several processes that have the other end, as forked ones do, the one that says most. */
static void follow_unix(struct follower *f, const struct captured_process *p, const struct captured_wait *w,
                        const struct captured_socket *s, struct wait_chain *c) {
        struct wait_chain best = { .n = 0 };
        uint64_t inode = 0;

        for (size_t i = 0; i < f->c->n_processes && f->budget > 0; i++) {
                const struct captured_process *q = &f->c->processes[i];
                const struct captured_socket *end = q == p ? NULL : unix_end_of(f, q, s);
                struct wait_chain next = *c;

                f->budget -= q->n_sockets > 0;
                if (!end)
                        continue;
                if (s->peer == 0 && s->local == s->remote && inode != 0 && inode != end->inode) {
                        end_unknown(c, WAIT_SOCKET); /* a neighbour on either side: it may be either */
                        return;
                }
                inode = end->inode;
                follow_process(f, q, &next);
                keep_better(&best, &next);
        }
        if (best.n > 0)
                *c = best;
        else
                follow_ends(f, p, w, s->peer, c);
}

/* Neither direction of a connection of the run carries. */
static bool is_cut(const struct follower *f, const struct peer_end *end) {
        return peer_end_lost(&f->e->peers, end) ||
               (end->peer != PEER_NONE && peer_end_lost(&f->e->peers, &f->e->peers.ends[end->peer]));
}

static void follow_socket(struct follower *f, const struct captured_process *p,
                          const struct captured_wait *w, struct wait_chain *c) {
        const struct peer_end *end = peers_find(&f->e->peers, f->host, w->number);
        const struct captured_socket *s = captured_socket_of(f->c, p, w->number);
        uint32_t node = end ? chain_node(f->e, end) : STACK_NONE;

        if (end && node == STACK_NONE)
                end_outside(c, WAIT_SOCKET, end->socket->remote);
        else if (end && end->peer != PEER_NONE && end->peer_host == f->host &&
                 evidence_rank(f->e, f->host, f->e->peers.ends[end->peer].process) == STACK_NONE &&
                 f->e->peers.ends[end->peer].process != p)
                follow_process(f, f->e->peers.ends[end->peer].process, c);
        else if (end && node != f->rank) {
                end_here(c, WAIT_SOCKET)->end = !w->any && is_cut(f, end) ? END_PATH : END_RANKS;
                c->weight = 0;
                c->certain = !w->any;
                add_target(c, node);
        } else if (!end && s && s->family == AF_UNIX)
                follow_unix(f, p, w, s, c);
        else if (!end && s && s->state != LISTENS && s->remote != 0)
                end_outside(c, WAIT_SOCKET, s->remote); /* a datagram's */
        else
                end_unknown(c, WAIT_SOCKET);
}

static void follow_child(struct follower *f, const struct captured_process *p, const struct captured_wait *w,
                         struct wait_chain *c) {
        struct wait_chain best = { .n = 0 };
        unsigned n = 0;

        for (size_t i = 0; i < f->c->n_processes && n < HOLDERS_MAX; i++) {
                const struct captured_process *q = &f->c->processes[i];
                struct wait_chain next = *c;

                if (q == p || (w->holder_pid > 0 ? q->pid != w->holder_pid : q->parent != p->pid))
                        continue;
                n++;
                follow_process(f, q, &next);
                keep_better(&best, &next);
        }
        if (best.n > 0)
                *c = best;
        else
                (void) end_here(c, WAIT_CHILD);
}

static void follow_wait(struct follower *f, const struct captured_process *p, const struct captured_wait *w,
                        struct wait_chain *c) {
        c->steps[c->n - 1].wait = w;
        switch ((enum wait_kind) w->kind) {
        case WAIT_LOCK:
        case WAIT_GIL:
                follow_lock(f, p, w, c);
                break;
        case WAIT_SOCKET:
                follow_socket(f, p, w, c);
                break;
        case WAIT_PIPE:
        case WAIT_EVENTFD:
                follow_ends(f, p, w, w->number, c);
                break;
        case WAIT_FILE:
        case WAIT_PAGE:
        case WAIT_DEVICE:
                end_here(c, w->kind)->outside = w->text;
                break;
        case WAIT_FILE_LOCK:
                if (captured_process_of(f->c, w->holder_pid) && w->holder_pid != p->pid)
                        follow_process(f, captured_process_of(f->c, w->holder_pid), c);
                else
                        (void) end_here(c, w->kind);
                break;
        case WAIT_CHILD:
                follow_child(f, p, w, c);
                break;
        case WAIT_TIMER:
        case WAIT_IO_URING:
        case WAIT_STOPPED:
        case WAIT_FROZEN:
        case WAIT_THROTTLED:
                (void) end_here(c, w->kind);
                break;
        case WAIT_UNKNOWN:
        case _WAIT_KIND_MAX:
                end_unknown(c, WAIT_UNKNOWN);
                break;
        }
}

/* --- A thread's waits --------------------------------------------------------------------------------- */

/* Of several whichever comes first ends the wait: all ranks among them are ends, before what says less. */
static void follow_waits(struct follower *f, const struct captured_process *p,
                         const struct captured_thread *t, struct wait_chain *c) {
        struct wait_chain best = { .n = 0 }, ranks = { .n = 0 };

        for (uint32_t i = 0; i < MIN(t->n_waits, WAITS_MAX) && (i == 0 || f->budget > 0); i++) {
                struct wait_chain next = *c;

                f->budget -= f->budget > 0;
                follow_wait(f, p, &f->c->waits[t->first_wait + i], &next);
                if (next.end == END_RANKS && ranks.n > 0) {
                        for (uint32_t k = 0; k < next.n_ranks; k++)
                                add_target(&ranks, next.ranks[k]);
                        ranks.certain &= ranks.n_ranks == 1;
                } else if (next.end == END_RANKS)
                        ranks = next;
                else
                        keep_better(&best, &next);
        }
        if (ranks.n > 0)
                keep_better(&best, &ranks);
        *c = best;
}

static void follow_thread(struct follower *f, const struct captured_process *p,
                          const struct captured_thread *t, struct wait_chain *c) {
        const struct seen_host *h = &f->e->hosts[f->host];
        uint8_t kind = place_kind(&f->e->scene->table, f->c, t, captured_state_of(p, t));
        uint32_t depth;

        if (has_step(c, t)) {
                end_circle(c, kind, t);
                return;
        }
        if (c->n == CHAIN_STEPS_MAX || f->budget == 0) {
                end_unknown(c, kind);
                return;
        }
        f->budget -= 1;
        c->steps[c->n++] = (struct chain_step){ .process = p, .thread = t };
        depth = c->n;
        c->stuck = thread_stuck(h, p, t);
        c->moved = thread_moved(h, p, t);
        if (kind == KIND_CPU && thread_starved(h, p, t))
                (void) end_here(c, WAIT_THROTTLED);
        else if (kind == WAIT_STOPPED || kind == KIND_ENDED || (kind == KIND_CPU && t->n_waits == 0))
                (void) end_here(c, kind);
        else if (t->n_waits > 0)
                follow_waits(f, p, t, c);
        else if (kind_waits(kind) || kind == KIND_UNKNOWN)
                end_unknown(c, kind);
        else
                (void) end_here(c, kind);
        if (c->end == END_UNKNOWN && c->n == depth)
                follow_odd_threads(f, p, t, c);
}

/* A lock of its process alone, of which nobody says who holds it. */
static bool is_own_lock(const struct wait_chain *c) {
        return c->kind == WAIT_LOCK && !(c->steps[0].wait && c->steps[0].wait->space != 0);
}

/* Some other thread of the process stands in that library and watches a connection to another rank. */
static bool library_exchanges(const struct follower *f, const struct chain_step *s) {
        const struct stack_table *table = &f->e->scene->table;
        uint32_t library = s->thread ? waiting_library(table, s->thread->stack) : STACK_NONE;

        for (uint32_t i = 0; library != STACK_NONE && i < s->process->n_threads; i++) {
                const struct captured_thread *t = &f->c->threads[s->process->first_thread + i];

                if (t != s->thread && waiting_library(table, t->stack) == library &&
                    peers_watched(&f->e->peers, f->host, f->c, t))
                        return true;
        }
        return false;
}

static struct follower follower_of(const struct evidence *e, uint32_t rank) {
        const struct seen_host *h = &e->hosts[e->ranks[rank].host];

        return (struct follower){ .e = e,
                                  .c = h->last,
                                  .host = e->ranks[rank].host,
                                  .rank = rank,
                                  .budget = MAX(BUDGET / h->n_ranks, BUDGET_MIN) };
}

void chain_look_within(const struct evidence *e, uint32_t rank, struct wait_chain *chain) {
        struct follower f = follower_of(e, rank);
        struct wait_chain c = { .n = 1, .steps = { chain->steps[0] }, .solid = true, .stuck = chain->stuck };

        f.within = true;
        if (c.steps[0].thread)
                follow_odd_threads(&f, c.steps[0].process, c.steps[0].thread, &c);
        if (c.n > 1)
                *chain = c;
}

void chain_follow(const struct evidence *e, uint32_t rank, struct wait_chain *ret) {
        const struct rank *r = &e->ranks[rank];
        const struct captured_process *p = r->process[1] ? r->process[1] : r->process[0];
        const struct captured_thread *t = r->process[1] ? r->thread[1] : r->thread[0];
        struct follower f = follower_of(e, rank);
        struct wait_chain c = { .solid = true };

        if (t)
                follow_thread(&f, p, t, &c);
        else
                follow_process(&f, p, &c);
        if (c.end == END_UNKNOWN && r->alike == ALIKE_MOST && !c.odd &&
            (kind_waits(c.kind) || c.kind == WAIT_UNKNOWN))
                c.end = END_OTHERS;
        if (c.end == END_UNKNOWN && c.n == 1 && r->alike == ALIKE_ODD && is_own_lock(&c)) {
                c.joins = evidence_waits_as_most(e, rank);
                c.exchanges = !c.joins && library_exchanges(&f, &c.steps[0]);
                if (c.joins || c.exchanges)
                        c.kind = WAIT_SOCKET; /* and the weight of the lock: it is a guess */
        }
        *ret = c;
}
