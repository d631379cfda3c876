/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long this host's own part of a step takes (collector/control/pace, straggler.h): bursts of looks at
 * the sockets, over some steps. In each look the host either has all that it needs and owes all, or not. All
 * hosts of a run begin at the same time: by the clock, and when steps have become slower or well again,
 * which each of them sees. A burst that costs too much ends early.
 */
#include <time.h>

#include "flow_debts.h"
#include "log.h"
#include "loop_timer.h"
#include "member.h"
#include "net_state.h"
#include "netlink.h"
#include "progress_part.h"
#include "tcp_figures.h"

#define EVERY (600 * USEC_PER_SEC) /* by the clock */
#define APART (60 * USEC_PER_SEC)  /* of one run, whatever happens */
#define SLOWER 1.04                /* the last steps, of the fastest */
#define WELL 1.02
#define BURSTS_SLOW 3u /* while they are slower; then by the clock alone */
#define STEPS 20u
#define LOOKS_STEP 25u
#define SOCKETS 16u /* of a run that are looked at: the busiest */
#define LOOKS (STEPS * LOOKS_STEP)
#define LOOK_LEAST (10 * USEC_PER_MSEC)
#define LOOK_MOST (1 * USEC_PER_SEC)
#define LOOK_UNKNOWN (40 * USEC_PER_MSEC)
#define CPU_MOST (150 * USEC_PER_MSEC) /* of one burst: 0.025 % of a core every ten minutes */

struct looked_run {
        char run[FLOW_NAME_MAX];
        uint64_t looks, owed;
        unsigned left, slow; /* looks of this burst; bursts since it became slower */
        usec_t interval, began, slot;
        uint32_t step_msec;
        clock_t cpu;
        struct looked_socket {
                struct tcp_connection socket;
                uint64_t bytes;
        } sockets[SOCKETS];
        size_t n_sockets;
};

struct net_looks {
        struct net_state *net;
        sd_event_source *timer;
        struct nl_sock *kernel; /* NULL: another root */
        uint8_t choosing;       /* the run whose sockets are chosen */
        struct looked_run runs[FLOW_RUNS_MAX];
};

static int keep_socket(const struct tcp_connection *c, void *userdata) {
        struct net_looks *k = userdata;
        struct looked_run *r = &k->runs[k->choosing];
        struct flow_debts d;
        size_t at = r->n_sockets;
        struct tcp_figures t;

        flow_debts_begin(&d, FLOW_DEBTS_NOW, r->step_msec, r->step_msec);
        if (!c->info || !flow_debts_counts(&d, &k->net->flows, k->choosing, c))
                return 0;
        tcp_connection_info(c, &t, sizeof(t));
        if (at == SOCKETS) { /* the busiest stay */
                at = 0;
                for (size_t i = 1; i < SOCKETS; i++)
                        if (r->sockets[i].bytes < r->sockets[at].bytes)
                                at = i;
                if (t.bytes_acked + t.bytes_received <= r->sockets[at].bytes)
                        return 0;
        } else
                r->n_sockets++;
        r->sockets[at] = (struct looked_socket){ *c, t.bytes_acked + t.bytes_received };
        r->sockets[at].socket.info = NULL; /* valid inside of this call only */
        r->sockets[at].socket.memory = NULL;
        return 0;
}

struct look {
        const struct flows *flows;
        const struct looked_socket *socket; /* that is asked for */
        double steps;                       /* since the burst began */
        uint8_t run;
        struct flow_debts debts;
};

static int take_socket(const struct tcp_connection *c, void *userdata) {
        struct look *l = userdata;
        struct tcp_figures t;
        uint64_t moved;

        tcp_connection_info(c, &t, sizeof(t));
        moved = t.bytes_acked + t.bytes_received - l->socket->bytes;
        l->debts.by_bytes = flow_turn_by_bytes(t.bytes_acked, t.bytes_received, moved, l->steps);
        flow_debts_take(&l->debts, l->flows, l->run, c);
        return 0;
}

/* It has all that it needs, and owes it. */
static bool owes_all(const struct flow_debts *d) {
        bool owes = false;

        for (size_t i = 0; i < d->n; i++) {
                if (d->debts[i].turn == FLOW_TURN_WAITS || d->debts[i].turn == FLOW_TURN_BAD)
                        return false;
                owes |= d->debts[i].turn == FLOW_TURN_OWES;
        }
        return owes;
}

static void look_once(struct net_looks *k, uint8_t run) {
        struct look l = { .flows = &k->net->flows, .run = run };
        static const struct tcp_query query = { .with_info = true };
        struct looked_run *r = &k->runs[run];
        clock_t began = clock();

        r->left--;
        flow_debts_begin(&l.debts, FLOW_DEBTS_NOW, r->step_msec, r->step_msec);
        l.debts.same = FLOW_DEBTS_SAME_NOW;
        if (r->step_msec > 0)
                l.steps = (double) ((host_now(k->net->bus->host) - r->began) / USEC_PER_MSEC) / r->step_msec;
        for (size_t i = 0; i < r->n_sockets; i++) { /* one that is closed says nothing */
                l.socket = &r->sockets[i];
                (void) tcp_connection_ask(k->kernel, &r->sockets[i].socket, &query, take_socket, &l);
        }
        flow_debts_end(&l.debts);
        r->looks++;
        r->owed += owes_all(&l.debts);
        r->cpu += clock() - began;
        if (r->cpu / (CLOCKS_PER_SEC / 1000) >= (clock_t) (CPU_MOST / USEC_PER_MSEC))
                r->left = 0;
}

static void tell_looks(struct net_looks *k, uint8_t run) {
        const struct looked_run *r = &k->runs[run];
        const struct flows *f = &k->net->flows;
        uint64_t retransmits = 0;

        for (size_t n = 0; n < FLOW_NICS_MAX; n++)
                if (flows_has(f, run, n))
                        retransmits += f->sums[run][n].total.retransmits;
        member_figure(k->net->bus, r->run, "looks", json_integer((json_int_t) r->looks));
        member_figure(k->net->bus, r->run, "owed", json_integer((json_int_t) r->owed));
        member_figure(k->net->bus, r->run, "retransmits", json_integer((json_int_t) retransmits));
}

static void arm_looks(struct net_looks *k) {
        usec_t next = USEC_INFINITY;

        for (size_t i = 1; i < FLOW_RUNS_MAX; i++)
                if (k->runs[i].left > 0)
                        next = MIN(next, k->runs[i].interval);
        (void) loop_timer_in(k->timer, next); /* fails only when the loop ends */
}

static int on_look(sd_event_source *source, uint64_t at, void *userdata) {
        struct net_looks *k = userdata;

        (void) source, (void) at;
        for (uint8_t i = 1; i < FLOW_RUNS_MAX; i++) {
                if (k->runs[i].left == 0)
                        continue;
                look_once(k, i);
                if (k->runs[i].left > 0)
                        continue;
                tell_looks(k, i);
                log_debug("run %s: %" PRIu64
                          " looks at its sockets so far, the last burst took %.1f ms of CPU time",
                          k->runs[i].run, k->runs[i].looks, (double) k->runs[i].cpu * 1000 / CLOCKS_PER_SEC);
        }
        arm_looks(k);
        return 0;
}

/* One dump says which sockets there are: it walks the kernel's whole table, and so is made once. */
static void begin_burst(struct net_looks *k, uint8_t run, usec_t step, usec_t now) {
        const struct tcp_query query = { .states = TCP_ESTABLISHED_BIT,
                                         .with_info = true,
                                         .max = NET_DUMP_MAX };
        struct looked_run *r = &k->runs[run];

        r->began = now;
        r->cpu = 0;
        r->n_sockets = 0;
        r->step_msec = (uint32_t) MIN(step / USEC_PER_MSEC, (usec_t) INT32_MAX);
        r->interval = step > 0 ? MIN(MAX(step / LOOKS_STEP, LOOK_LEAST), LOOK_MOST) : LOOK_UNKNOWN;
        k->choosing = run;
        if (tcp_connections_read(k->net->bus->host, &query, keep_socket, k) < 0 || r->n_sockets == 0)
                return;
        r->left = LOOKS;
        log_debug("run %s: %u looks at %zu sockets, %" PRIu64 " ms apart", r->run, r->left, r->n_sockets,
                  r->interval / USEC_PER_MSEC);
        arm_looks(k);
}

/* Whether its steps changed their pace, so that all hosts look. */
static bool pace_changed(struct looked_run *r, usec_t recent, usec_t best) {
        if (recent == 0 || best == 0)
                return false;
        if ((double) recent >= SLOWER * (double) best)
                return r->slow < BURSTS_SLOW && ++r->slow > 0;
        if (r->slow == 0 || (double) recent > WELL * (double) best)
                return false;
        r->slow = 0;
        return true;
}

void net_looks_tick(struct net_looks *k) {
        struct bus *b = k->net->bus;
        usec_t now = host_now(b->host), slot = host_now_real(b->host) / EVERY;

        for (uint8_t i = 1; k->kernel && k->net->on && i < FLOW_RUNS_MAX; i++) {
                struct looked_run *r = &k->runs[i];
                const char *name = k->net->flows.runs[i];
                usec_t recent, best;

                if (!streq(r->run, name)) {
                        *r = (struct looked_run){ .slot = slot, .began = now };
                        (void) snprintf(r->run, sizeof(r->run), "%s", name);
                }
                if (!name[0] || r->left > 0 || now < r->began + APART || progress_suspicion(b, name))
                        continue;
                tell_looks(k, i); /* what else is counted is as of now, behind a burst and before one */
                progress_pace(b, name, &recent, &best);
                if (!pace_changed(r, recent, best) && slot == r->slot)
                        continue;
                r->slot = slot;
                begin_burst(k, i, recent / MAX(progress_steps_a_line(b, name), 1u), now);
        }
}

int net_looks_new(struct net_state *n, struct net_looks **ret) {
        struct net_looks *k = calloc(1, sizeof(*k));
        int r;

        if (!k)
                return -ENOMEM;
        k->net = n;
        if (!n->bus->host->real_root || netlink_open(NETLINK_SOCK_DIAG, &k->kernel) < 0)
                log_debug("sockets cannot be asked for one by one: own parts of steps are not known");
        r = loop_timer_new(n->bus->event, CLOCK_MONOTONIC, USEC_PER_MSEC, "socket-looks", on_look, k,
                           &k->timer);
        if (r < 0) {
                (void) net_looks_free(k);
                return r;
        }
        *ret = k;
        return 0;
}

struct net_looks *net_looks_free(struct net_looks *k) {
        if (!k)
                return NULL;
        k->timer = sd_event_source_disable_unref(k->timer);
        if (k->kernel)
                nl_socket_free(k->kernel);
        free(k);
        return NULL;
}
