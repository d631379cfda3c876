/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_debts.h"

#include <math.h>
#include <sys/socket.h>

#include "flow_memory.h"
#include "tcp_figures.h"

#define SLACK_MSEC 1000u /* a step line comes a little behind its step */
#define WINDOWS 3u       /* of ticks that are looked at, */
#define WINDOWS_MOVED 2u /* and in how many a socket of the steps moved */

#define TIMER_PROBE 4 /* idiag_timer, as in ss(8): the peer's window is closed */

const char *flow_turn_name(enum flow_turn t) {
        static const char *const names[_FLOW_TURN_MAX] = {
                [FLOW_TURN_OPEN] = "open",   [FLOW_TURN_OWES] = "owes", [FLOW_TURN_WAITS] = "waits",
                [FLOW_TURN_SENDS] = "sends", [FLOW_TURN_BAD] = "bad",
        };

        return names[t];
}

/* How far apart two times may be and still are one. */
static uint32_t same_msec(const struct flow_debts *d) {
        uint32_t part = (uint32_t) (d->same * d->step_msec);

        return d->step_msec == 0 ? FLOW_DEBTS_SAME_UNKNOWN : MAX(part, FLOW_DEBTS_SAME_LEAST);
}

void flow_debts_begin(struct flow_debts *d, uint32_t silent_msec, uint32_t step_msec, uint32_t line_msec) {
        d->silent_msec = silent_msec;
        d->step_msec = step_msec;
        d->same = FLOW_DEBTS_SAME;
        d->line_msec = MAX(line_msec, step_msec);
        d->n = 0;
        d->left_out = 0;
        d->by_bytes = FLOW_TURN_OPEN;
}

/* --- Whether it moves with the steps ------------------------------------------------------------------- */

/* So many dumps of ticks as the last step is old can hold no movement, and no blame. */
static bool moved_before(const struct flow_debts *d, const struct flows *f, const struct flow_mark *m) {
        unsigned known = MIN(m->windows, 8u), skip = 0, moved = 0;

        if (f->span > 0)
                skip = MIN((unsigned) (d->silent_msec * USEC_PER_MSEC / f->span), known);
        known = MIN(known - skip, WINDOWS);
        for (unsigned i = 0; i < known; i++)
                moved += m->moved >> (skip + i) & 1;
        return known == 0 || d->line_msec * USEC_PER_MSEC > f->span ? m->moved != 0 || known == 0
                                                                    : moved >= MIN(known, WINDOWS_MOVED);
}

/* It moved when the run did not. */
static bool went_on(const struct flow_debts *d, uint32_t youngest) {
        return d->silent_msec > 0 && (uint64_t) youngest + 2u * d->line_msec + SLACK_MSEC < d->silent_msec;
}

/* A direction that rested in the last steps is none of theirs. */
static uint32_t within_steps(const struct flow_debts *d, uint32_t msec, uint64_t bytes) {
        if (bytes == 0 ||
            (d->silent_msec > 0 && msec > (uint64_t) d->silent_msec + 2u * d->line_msec + SLACK_MSEC))
                return FLOW_NEVER;
        return msec;
}

/* --- Turns ----------------------------------------------------------------------------------------- */

static enum flow_turn order_of(const struct flow_debts *d, uint32_t sent, uint32_t received) {
        uint32_t same = same_msec(d);

        if (sent > received && sent - received > same) /* FLOW_NEVER is longest ago */
                return FLOW_TURN_OWES;
        return received > sent && received - sent > same ? FLOW_TURN_WAITS : FLOW_TURN_OPEN;
}

/* One that only receives is judged at the end, when it is known when this host last sent. */
static enum flow_turn turn_of(const struct flow_debts *d, const struct flow_debt *x, uint8_t timer) {
        enum flow_turn turn = FLOW_TURN_OPEN;

        if (timer == TIMER_PROBE && x->unsent > 0)
                return FLOW_TURN_WAITS;
        if (x->unread > 0)
                return FLOW_TURN_OWES;
        if (x->received_msec == FLOW_NEVER)
                return FLOW_TURN_SENDS;
        if (x->sent_msec != FLOW_NEVER)
                turn = order_of(d, x->sent_msec, x->received_msec);
        return turn == FLOW_TURN_OPEN && x->sent_msec != FLOW_NEVER ? d->by_bytes : turn;
}

enum flow_turn flow_turn_by_bytes(uint64_t sent, uint64_t received, uint64_t moved, double steps) {
        double ahead = (double) sent - (double) received, message = (double) moved / 2 / steps;

        if (steps < 2 || moved == 0 || 4 * fabs(ahead) < message || fabs(ahead) > 4 * message)
                return FLOW_TURN_OPEN;
        return ahead > 0 ? FLOW_TURN_WAITS : FLOW_TURN_OWES;
}

void flow_debts_end(struct flow_debts *d) {
        uint32_t sent = FLOW_NEVER, oldest = 0, same = same_msec(d);

        for (size_t i = 0; i < d->n; i++)
                sent = MIN(sent, d->debts[i].sent_msec);
        for (size_t i = 0; i < d->n; i++) {
                struct flow_debt *x = &d->debts[i];

                if (x->turn == FLOW_TURN_OPEN && x->sent_msec == FLOW_NEVER && sent != FLOW_NEVER)
                        x->turn = order_of(d, sent, x->received_msec);
                if (x->turn == FLOW_TURN_WAITS && x->received_msec != FLOW_NEVER)
                        oldest = MAX(oldest, x->received_msec);
        }
        for (size_t i = 0; i < d->n; i++) {
                struct flow_debt *x = &d->debts[i];

                if (x->turn == FLOW_TURN_WAITS && x->received_msec != FLOW_NEVER && x->unsent == 0 &&
                    oldest - x->received_msec > same)
                        x->turn = FLOW_TURN_OPEN;
        }
}

/* --- Entries --------------------------------------------------------------------------------------- */

static struct flow_debt *entry_for(struct flow_debts *d, const struct flow_debt *x) {
        static const struct flow_debt none = { .sent_msec = FLOW_NEVER, .received_msec = FLOW_NEVER };
        struct flow_debt *e = NULL;

        for (size_t i = 0; i < d->n; i++)
                if (d->debts[i].family == x->family && d->debts[i].turn == x->turn &&
                    (d->debts[i].sent_msec == FLOW_NEVER) == (x->sent_msec == FLOW_NEVER) &&
                    memcmp(d->debts[i].peer, x->peer, 16) == 0 &&
                    memcmp(d->debts[i].local, x->local, 16) == 0)
                        return &d->debts[i];
        if (d->n < FLOW_DEBTS_MAX)
                e = &d->debts[d->n++];
        else
                d->left_out++;
        for (size_t i = 0; !e && x->turn != FLOW_TURN_OPEN && i < d->n; i++)
                if (d->debts[i].turn == FLOW_TURN_OPEN) /* it says less */
                        e = &d->debts[i];
        if (e)
                *e = none;
        return e;
}

static void merge_debt(struct flow_debts *d, const struct flow_debt *x) {
        struct flow_debt *e = entry_for(d, x);

        if (!e)
                return;
        memcpy(e->local, x->local, sizeof(e->local));
        memcpy(e->peer, x->peer, sizeof(e->peer));
        e->family = x->family;
        e->turn = x->turn;
        e->sent_msec = MIN(e->sent_msec, x->sent_msec);
        e->received_msec = MIN(e->received_msec, x->received_msec);
        e->unread += x->unread;
        e->unsent += x->unsent;
}

/* A kernel that does not say whose sockets are has those between workers. */
static bool is_of_run(const struct flows *f, const struct flow_link *l, uint8_t run) {
        return l->run == run || (!f->runs_told && l->run == FLOW_NOBODY && l->is_worker);
}

static bool is_silent(const struct tcp_connection *s, const struct tcp_figures *t) {
        return s->timer == TCP_TIMER_REPEAT && t->unacked > 0 && t->retransmits >= FLOW_SILENT_REPEATS;
}

bool flow_debts_counts(const struct flow_debts *d, const struct flows *f, uint8_t run,
                       const struct tcp_connection *s) {
        const struct flow_mark *m = flow_memory_look(f->memory, s->cookie);
        struct tcp_figures t;

        if (!m || m->link == FLOW_MEMORY_NO_LINK || !is_of_run(f, &f->links[m->link], run) || !s->info ||
            s->state == TCP_STATE_SYN_SENT)
                return false;
        tcp_connection_info(s, &t, sizeof(t));
        return is_silent(s, &t) ||
               (!went_on(d, MIN(t.last_data_sent, t.last_data_recv)) && moved_before(d, f, m));
}

void flow_debts_take(struct flow_debts *d, const struct flows *f, uint8_t run,
                     const struct tcp_connection *s) {
        struct flow_debt x = { .family = (uint8_t) s->family, .unread = s->unread, .unsent = s->unsent };
        struct tcp_figures t;

        if (!flow_debts_counts(d, f, run, s))
                return;
        tcp_connection_info(s, &t, sizeof(t));
        memcpy(x.local, s->local, sizeof(x.local));
        memcpy(x.peer, s->peer, sizeof(x.peer));
        x.sent_msec = within_steps(d, t.last_data_sent,
                                   s->info_size >= TCP_SENT_END ? t.bytes_sent : t.bytes_acked);
        x.received_msec = within_steps(d, t.last_data_recv, t.bytes_received);
        if (x.sent_msec == FLOW_NEVER && x.received_msec == FLOW_NEVER && x.unread == 0 && !is_silent(s, &t))
                return;
        x.turn = is_silent(s, &t) ? FLOW_TURN_BAD : turn_of(d, &x, s->timer);
        merge_debt(d, &x);
}
