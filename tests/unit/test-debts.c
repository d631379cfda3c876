/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds a stalled run up, from sockets alone: trainings of several kinds,
 * one rank of which stands anywhere in its step, through what each host makes
 * of its sockets and the graph of all hosts. And the figures that were recorded
 * on booted hosts.
 */
#include "debts.h"
#include "flow-case.h"
#include "flow_debts.h"
#include "training.h"

#define STEPS 5u

/* --- From sockets to the graph
 * ----------------------------------------------------------------------------
 */

struct host_seen {
        struct flow_debts debts;
        struct debt list[FLOW_DEBTS_MAX];
};

static struct tcp_socket socket_between(uint32_t host, uint32_t peer, uint64_t cookie) {
        struct tcp_socket s = socket_of(cookie, 0, "10.0.0.1");

        s.c.local[3] = (uint8_t) (10 + host);
        s.c.peer[3] = (uint8_t) (10 + peer);
        s.figures = (struct tcp_figures){ .bytes_sent = 1, .bytes_received = 1 };
        return s;
}

static uint32_t host_of(const uint8_t address[16]) {
        return (uint32_t) address[3] - 10;
}

/* The sockets of a host as the ticks saw them while steps went on, and as they
 * are now. usual: bytes that each moved in a tick. */
static void look(struct host_seen *h, struct tcp_socket *sockets, const uint64_t *usual, size_t n,
                 uint32_t silent, uint32_t step) {
        struct flow_case c;

        case_init(&c);
        for (unsigned tick = 0; tick < 5; tick++) {
                for (size_t i = 0; i < n; i++) {
                        sockets[i].figures.bytes_sent += usual[i];
                        sockets[i].figures.bytes_received += usual[i] / 2;
                }
                dump(&c, sockets, n);
        }
        flow_debts_begin(&h->debts, silent, step, step);
        for (size_t i = 0; i < n; i++) {
                struct tcp_connection s = sockets[i].c;

                s.info = &sockets[i].figures;
                s.info_size = sizeof(sockets[i].figures);
                flow_debts_take(&h->debts, &c.f, c.run, &s);
        }
        flow_debts_end(&h->debts);
        flows_clear(&c.f);
}

static int64_t msec_or_none(uint32_t msec) {
        return msec == FLOW_NEVER ? -1 : (int64_t) msec;
}

static void make_host(struct host_seen *h, struct debts_host *ret) {
        for (size_t i = 0; i < h->debts.n; i++) {
                const struct flow_debt *x = &h->debts.debts[i];

                h->list[i] = (struct debt){ .peer = host_of(x->peer),
                                            .sent = msec_or_none(x->sent_msec),
                                            .received = msec_or_none(x->received_msec),
                                            .unread = x->unread,
                                            .unsent = x->unsent };
                ASSERT_OK(debt_turn_parse(flow_turn_name(x->turn), &h->list[i].turn));
        }
        *ret = (struct debts_host){ .debts = h->list, .n = h->debts.n, .said = true };
}

/* --- Trainings
 * ---------------------------------------------------------------------------------------------
 */

static uint32_t msec_since(double now, double at) {
        return (uint32_t) ((now - at) * 1000 / 4) * 4; /* a clock of 250 Hz */
}

/* Beside those of the steps: a heartbeat to each neighbour, and a connection
 * that rests since the start. */
static size_t add_noise(struct training *t, uint32_t r, struct tcp_socket *sockets, uint64_t *usual,
                        size_t n) {
        uint32_t peer = (r + 1) % t->n;

        sockets[n] = socket_between(r, peer, 1000 + n);
        sockets[n].figures.last_data_sent = (uint32_t) (any(t) * 3000);
        sockets[n].figures.last_data_recv = (uint32_t) (any(t) * 3000);
        usual[n++] = 500;
        sockets[n] = socket_between(r, peer, 1000 + n);
        sockets[n].figures.last_data_sent = sockets[n].figures.last_data_recv = 3600000;
        usual[n++] = 0;
        return n;
}

static void see_rank(struct training *t, uint32_t r, double now, double step, bool eager,
                     struct host_seen *h) {
        struct tcp_socket sockets[2 * RANKS_MAX];
        uint64_t usual[2 * RANKS_MAX];
        size_t n = 0;

        for (uint32_t p = 0; p < t->n; p++) {
                const struct wire *out = &t->wires[r][p], *in = &t->wires[p][r];
                struct tcp_socket *s = &sockets[n];

                if (out->messages + in->messages == 0)
                        continue;
                *s = socket_between(r, p, 1 + p);
                s->figures.last_data_sent = out->messages ? msec_since(now, out->sent) : 3600000;
                s->figures.last_data_recv = in->messages ? msec_since(now, in->arrived) : 3600000;
                s->c.unread = eager ? 0 : in->waiting * 16544;
                if (out->waiting == ELEMENTSOF(out->arrivals) && t->programs[r].ops[t->at[r]].kind == SEND &&
                    t->programs[r].ops[t->at[r]].peer == p) {
                        s->c.unsent = 33088;
                        s->c.timer = 4;
                }
                usual[n++] = 100000;
        }
        n = add_noise(t, r, sockets, usual, n);
        look(h, sockets, usual, n, msec_since(now, t->step_done[r]), (uint32_t) (step * 1000));
}

struct tally {
        unsigned cases, right, clear, nobody, wrong, clear_wrong;
};

static void judge_training(enum pattern k, uint32_t n, uint64_t seed, bool eager, bool computing,
                           struct tally *tally) {
        static struct host_seen seen[RANKS_MAX];
        struct debts_host hosts[RANKS_MAX];
        struct debts_verdict v;
        struct training t;
        double step, now = 0;
        uint32_t struck;
        size_t at;

        training_begin(&t, k, n, 0.2 + (double) (seed % 7) * 0.3, seed);
        struck = (uint32_t) (any(&t) * n);
        at = (size_t) (any(&t) * (double) t.programs[struck].n);
        for (size_t i = 0; computing && i < t.programs[struck].n; i++)
                if (t.programs[struck].ops[i].kind == COMPUTE) {
                        at = i;
                        break;
                }
        training_run(&t, STEPS, struck, at);
        for (uint32_t r = 0; r < n; r++)
                now = MAX(now, t.step_done[r]);
        step = now / STEPS;
        now += MAX(10, 2.5 * step) + any(&t);
        for (uint32_t r = 0; r < n; r++) {
                see_rank(&t, r, now, step, eager, &seen[r]);
                make_host(&seen[r], &hosts[r]);
        }
        ASSERT_OK(debts_judge(hosts, n, &v));
        tally->cases++;
        tally->right += v.says != DEBTS_NOBODY && v.host == struck;
        tally->clear += v.says == DEBTS_CLEAR && v.host == struck;
        tally->nobody += v.says == DEBTS_NOBODY;
        tally->wrong += v.says != DEBTS_NOBODY && v.host != struck;
        tally->clear_wrong += v.says == DEBTS_CLEAR && v.host != struck;
        if (v.says != DEBTS_NOBODY && v.host != struck && getenv("TEST_VERBOSE")) {
                printf("%s of %u, seed %llu, eager %d: %u stands at %zu, named %u (why %d, "
                       "says %d)\n",
                       pattern_names[k], n, (unsigned long long) seed, eager, struck, at, v.host, v.why,
                       v.says);
                for (uint32_t r = 0; r < n; r++)
                        for (size_t i = 0; i < hosts[r].n; i++)
                                printf("  %u %s %u: sent %lld received %lld unread %llu\n", r,
                                       flow_turn_name(seen[r].debts.debts[i].turn), hosts[r].debts[i].peer,
                                       (long long) hosts[r].debts[i].sent,
                                       (long long) hosts[r].debts[i].received,
                                       (unsigned long long) hosts[r].debts[i].unread);
        }
}

/* Whoever stands while it computes, which is where ranks stand: never the wrong
 * one, and in most kinds always the right one. One that stands between two
 * messages may look like another; that is rarely said to be clear. */
static void test_trainings(void) {
        static const bool always[_PATTERN_MAX] = {
                [RING] = true, [STAR] = true, [STAR_IN_TURN] = true, [ALL_TO_ALL] = true, [DOUBLING] = true
        };
        unsigned seed = test_seed();

        for (enum pattern k = 0; k < _PATTERN_MAX; k++)
                for (int computing = 1; computing >= 0; computing--) {
                        struct tally tally = { 0 };

                        for (unsigned i = 0; i < 400; i++) {
                                uint32_t n = k == DOUBLING ? 4u << i % 3 : 3 + i % 10;

                                judge_training(k, n, seed * 1000ULL + i, i / 2 % 2, computing, &tally);
                        }
                        printf("%-13s %-22s cases %4u  named right %4u (clear %4u)  nobody %4u  "
                               "wrong %3u "
                               "(clear %u)\n",
                               pattern_names[k], computing ? "stands while computing" : "stands anywhere",
                               tally.cases, tally.right, tally.clear, tally.nobody, tally.wrong,
                               tally.clear_wrong);
                        if (computing) {
                                ASSERT_EQ(tally.wrong, 0);
                                ASSERT_TRUE(!always[k] || tally.right == tally.cases);
                                ASSERT_TRUE(tally.right > tally.cases / 10);
                        } else
                                ASSERT_TRUE(tally.clear_wrong <= tally.cases / 10);
                }
}

/* --- As recorded on booted hosts
 * ----------------------------------------------------------------------------
 */

#define NEVER 3600000u /* connections that old have never moved so */

/* One end of a connection, 15 s after the strike: ms since data was sent and
 * came, bytes, segments. */
struct row {
        uint32_t host, peer, sent, received, unread, unsent, unacked;
};

static struct debts_verdict judge_rows(const struct row *rows, size_t n, uint32_t hosts, uint32_t silent,
                                       uint32_t step) {
        static struct host_seen seen[RANKS_MAX];
        struct debts_host list[RANKS_MAX];
        struct debts_verdict v;

        for (uint32_t h = 0; h < hosts; h++) {
                struct tcp_socket sockets[RANKS_MAX];
                uint64_t usual[RANKS_MAX];
                size_t k = 0;

                for (size_t i = 0; i < n; i++) {
                        struct tcp_socket *s = &sockets[k];

                        if (rows[i].host != h)
                                continue;
                        *s = socket_between(h, rows[i].peer, k + 1);
                        s->figures.last_data_sent = rows[i].sent;
                        s->figures.last_data_recv = rows[i].received;
                        s->c.unread = rows[i].unread;
                        s->c.unsent = rows[i].unsent;
                        s->figures.unacked = rows[i].unacked;
                        s->figures.retransmits = rows[i].unacked > 0 ? 5 : 0;
                        s->c.timer = rows[i].unacked > 0 ? 1 : 0;
                        usual[k++] = 100000;
                }
                look(&seen[h], sockets, usual, k, silent, step);
                make_host(&seen[h], &list[h]);
        }
        ASSERT_OK(debts_judge(list, hosts, &v));
        return v;
}

/* waits.md of the project's facts has these: two trainings of four hosts, h2
 * struck; and a star. */
static void test_recorded(void) {
        /* a ring of plain sockets: each receives from the one before and sends to the
         * next */
        static const struct row ring[] = {
                { 0, 3, NEVER, 15010, 0, 0, 0 },     { 0, 1, 15020, NEVER, 0, 0, 0 },
                { 1, 0, NEVER, 15000, 0, 0, 0 },     { 1, 2, 15000, NEVER, 0, 0, 0 },
                { 2, 1, NEVER, 15000, 49632, 0, 0 }, { 2, 3, 15400, NEVER, 0, 0, 0 },
                { 3, 2, NEVER, 15400, 0, 0, 0 },     { 3, 0, 15010, NEVER, 0, 0, 0 },
        };
        /* gloo: each with each; a poller has read all: a deadlock, a blocked read, a
         * loop, a long collection */
        static const struct row gloo[] = {
                { 0, 1, 15000, 15010, 0, 0, 0 }, { 0, 3, 15004, 15000, 0, 0, 0 },
                { 1, 0, 15010, 15000, 0, 0, 0 }, { 1, 2, 15000, 15630, 0, 0, 0 },
                { 2, 1, 15630, 15000, 0, 0, 0 }, { 2, 3, 15620, 15004, 0, 0, 0 },
                { 3, 2, 15004, 15624, 0, 0, 0 }, { 3, 0, 15000, 15004, 0, 0, 0 },
        };
        /* a star: h0 keeps the weights, h2 is struck; data of the healthy ones lies
         * unread at the keeper */
        static const struct row star[] = {
                { 0, 1, 15300, 15000, 80004, 0, 0 }, { 0, 2, 15304, 15304, 0, 0, 0 },
                { 0, 3, 15296, 14996, 80004, 0, 0 }, { 1, 0, 15000, 15300, 0, 0, 0 },
                { 2, 0, 15304, 15304, 0, 0, 0 },     { 3, 0, 14996, 15296, 0, 0, 0 },
        };
        static const struct row keeper[] = {
                { 0, 1, 15300, 15000, 80004, 0, 0 }, { 0, 2, 15304, 15008, 80004, 0, 0 },
                { 0, 3, 15296, 14996, 80004, 0, 0 }, { 1, 0, 15000, 15300, 0, 0, 0 },
                { 2, 0, 15008, 15304, 0, 0, 0 },     { 3, 0, 14996, 15296, 0, 0, 0 },
        };
        /* the NIC of h2 is cut: nothing of it is acknowledged, nor what is sent there
         */
        static const struct row cut[] = {
                { 0, 1, 15000, 15010, 0, 0, 0 },  { 0, 3, 15004, 15000, 0, 0, 0 },
                { 1, 0, 15010, 15000, 0, 0, 0 },  { 1, 2, 2000, 15630, 0, 96, 1 },
                { 2, 1, 2100, 15640, 0, 192, 2 }, { 2, 3, 2200, 15620, 0, 192, 2 },
                { 3, 2, 2300, 15624, 0, 96, 1 },  { 3, 0, 15000, 15004, 0, 0, 0 },
        };
        struct debts_verdict v = judge_rows(ring, ELEMENTSOF(ring), 4, 15400, 430);

        ASSERT_EQ(v.says, DEBTS_CLEAR);
        ASSERT_EQ(v.host, 2);
        ASSERT_EQ(v.unread, 49632);
        v = judge_rows(gloo, ELEMENTSOF(gloo), 4, 15630, 630);
        ASSERT_EQ(v.says, DEBTS_CLEAR);
        ASSERT_EQ(v.host, 2);
        ASSERT_TRUE(v.owes >= 600 && v.owes <= 650 && v.waiting == 2);
        v = judge_rows(star, ELEMENTSOF(star), 4, 15310, 350);
        ASSERT_EQ(v.says, DEBTS_LIKELY);
        ASSERT_EQ(v.why, DEBTS_INFERRED);
        ASSERT_EQ(v.host, 2);
        v = judge_rows(keeper, ELEMENTSOF(keeper), 4, 15310, 350);
        ASSERT_EQ(v.why, DEBTS_OWES);
        ASSERT_EQ(v.host, 0);
        ASSERT_EQ(v.waiting, 3);
        v = judge_rows(cut, ELEMENTSOF(cut), 4, 15630, 630);
        ASSERT_EQ(v.why, DEBTS_PATH);
        ASSERT_EQ(v.host, 2);
}

/* --- The graph alone
 * -----------------------------------------------------------------------------------------
 */

static struct debts_verdict judge_graph_of(struct debt lists[4][4], const size_t *n, bool said_3) {
        struct debts_host hosts[4];
        struct debts_verdict v;

        for (size_t h = 0; h < 4; h++)
                hosts[h] = (struct debts_host){ lists[h], n[h], h != 3 || said_3 };
        ASSERT_OK(debts_judge(hosts, 4, &v));
        return v;
}

#define WAITS_FOR(p)                                                                                        \
        { .peer = (p), .turn = DEBT_WAITS, .sent = 1, .received = 2 }

/* A host that says nothing is named by the others; who waits in a circle, and
 * two, are not. */
static void test_silent_round_several(void) {
        struct debt silent[4][4] = {
                { WAITS_FOR(3) }, { WAITS_FOR(0) }, { WAITS_FOR(3) }, { WAITS_FOR(0) }
        };
        struct debts_verdict v = judge_graph_of(silent, (size_t[]){ 1, 1, 1, 0 }, false);

        ASSERT_EQ(v.why, DEBTS_SILENT);
        ASSERT_EQ(v.host, 3);
        ASSERT_EQ(v.waiting, 2);
        v = judge_graph_of(silent, (size_t[]){ 1, 1, 1, 1 }, true);
        ASSERT_EQ(v.why, DEBTS_ROUND);
        ASSERT_EQ(v.says, DEBTS_NOBODY);
        silent[1][0].peer = 2;
        silent[2][0].peer = DEBTS_OUTSIDE; /* who waits for somebody outside stands in
                                              the run's way */
        v = judge_graph_of(silent, (size_t[]){ 1, 1, 1, 0 }, true);
        ASSERT_EQ(v.why, DEBTS_SEVERAL);
        silent[0][0].peer = 4;
        ASSERT_EQ(debts_judge(&(struct debts_host){ silent[0], 1, true }, 1, &v), -EINVAL);
}

/* Whatever is said: an answer, the same one in any order of hosts and of peers.
 */
static void test_any_order(void) {
        struct training random = { .seed = test_seed() * 77ULL + 1 };

        for (unsigned round = 0; round < 2000; round++) {
                static struct debt lists[2][RANKS_MAX][8];
                struct debts_host hosts[2][RANKS_MAX];
                struct debts_verdict a, b;
                uint32_t n = 2 + (uint32_t) (any(&random) * (RANKS_MAX - 2)),
                         turn = (uint32_t) (any(&random) * n);

                for (uint32_t h = 0; h < n; h++) {
                        size_t size = (size_t) (any(&random) * 8);
                        uint32_t to = (h + turn) % n;

                        for (size_t i = 0; i < size; i++) {
                                uint32_t peer = (h + 1 + (uint32_t) (any(&random) * (n - 1))) % n;

                                lists[0][h][i] = (struct debt){
                                        .peer = peer,
                                        .turn = (enum debt_turn)(any(&random) * (_DEBT_TURN_MAX - 0.5)),
                                        .sent = (int64_t) (any(&random) * 1000),
                                        .received = (int64_t) (any(&random) * 1000),
                                };
                                lists[1][to][size - 1 - i] = lists[0][h][i];
                                lists[1][to][size - 1 - i].peer = (peer + turn) % n;
                        }
                        hosts[0][h] = (struct debts_host){ lists[0][h], size, any(&random) < 0.9 };
                        hosts[1][to] = (struct debts_host){ lists[1][to], size, hosts[0][h].said };
                }
                ASSERT_OK(debts_judge(hosts[0], n, &a));
                ASSERT_OK(debts_judge(hosts[1], n, &b));
                ASSERT_EQ(a.says, b.says);
                ASSERT_EQ(a.why, b.why);
                ASSERT_EQ(a.waiting, b.waiting);
                if (a.says != DEBTS_NOBODY && a.why != DEBTS_PAIR)
                        ASSERT_EQ((a.host + turn) % n, b.host);
        }
}

/* One that moved bytes all the time, and goes on: no debt of it counts. */
static void test_heartbeat(void) {
        struct tcp_socket s[] = { socket_between(0, 1, 1), socket_between(0, 1, 2),
                                  socket_between(0, 2, 3) };
        const uint64_t usual[] = { 100000, 600, 0 };
        struct host_seen h;

        s[0].figures.last_data_sent = s[0].figures.last_data_recv = 12000;
        s[1].figures.last_data_sent = 900; /* asks each second, and is answered no more */
        s[1].figures.last_data_recv = 11000;
        s[2].figures.last_data_sent = 12000; /* by chance */
        s[2].figures.last_data_recv = 900000;
        look(&h, s, usual, 3, 12000, 500);
        ASSERT_EQ(h.debts.n, 1);
        ASSERT_EQ(h.debts.debts[0].turn, FLOW_TURN_OPEN);
}

/* Both times are one where a run makes its batches ahead: who has sent a message more waits. */
static void test_by_bytes(void) {
        const uint64_t message = 50000, steps = 10, sent = 400 * message;
        struct host_seen h;
        struct tcp_socket s;
        const uint64_t usual = 100000;

        ASSERT_EQ(flow_turn_by_bytes(sent + message, sent, 2 * steps * message, steps), FLOW_TURN_WAITS);
        ASSERT_EQ(flow_turn_by_bytes(sent, sent + message, 2 * steps * message, steps), FLOW_TURN_OWES);
        ASSERT_EQ(flow_turn_by_bytes(sent, sent, 2 * steps * message, steps), FLOW_TURN_OPEN);
        ASSERT_EQ(flow_turn_by_bytes(sent + 2, sent, 2 * steps * message, steps), FLOW_TURN_OPEN);
        ASSERT_EQ(flow_turn_by_bytes(sent, 7, 2 * steps * message, steps), FLOW_TURN_OPEN); /* one way */
        ASSERT_EQ(flow_turn_by_bytes(sent + message, sent, message, 0.5), FLOW_TURN_OPEN);
        ASSERT_EQ(flow_turn_by_bytes(1, 2, 0, 0), FLOW_TURN_OPEN);

        s = socket_between(0, 1, 1);
        s.figures.last_data_sent = s.figures.last_data_recv = 500;
        look(&h, &s, &usual, 1, FLOW_DEBTS_NOW, 600);
        ASSERT_EQ(h.debts.n, 1);
        ASSERT_EQ(h.debts.debts[0].turn, FLOW_TURN_OPEN);
}

TEST_MAIN(test_by_bytes, test_trainings, test_recorded, test_silent_round_several, test_any_order,
          test_heartbeat)
