/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank's own part of a step is longer: trainings of several kinds through the looks of each host at
 * its sockets; why; and figures through pace, with a transient that is reported and closed. */
#include "flow-case.h"
#include "flow_debts.h"
#include "straggler.h"
#include "pace.h"
#include "training.h"

#define WARM 6u
#define LOOKED_STEPS 20u
#define LOOKS_A_STEP 25u
#define EVENTS_MAX 200000u

static int by_time(const void *a, const void *b) {
        const struct wire_event *x = a, *y = b;

        return (x->at > y->at) - (x->at < y->at);
}

/* The last time of each direction of each pair, as the events pass. */
struct moment {
        double sent[RANKS_MAX][RANKS_MAX], received[RANKS_MAX][RANKS_MAX];
        size_t next;
};

static uint32_t age(double now, double at) {
        return at < 0 ? 3600000 : (uint32_t) ((now - at) * 1000 / 4) * 4;
}

/* What net_looks.c makes of it: it has all that it needs, and owes it. */
static bool owes_all(const struct flow_debts *d) {
        bool owes = false;

        for (size_t i = 0; i < d->n; i++) {
                if (d->debts[i].turn == FLOW_TURN_WAITS || d->debts[i].turn == FLOW_TURN_BAD)
                        return false;
                owes |= d->debts[i].turn == FLOW_TURN_OWES;
        }
        return owes;
}

static bool look_at(const struct flow_case *c, const struct moment *m, uint32_t host, uint32_t n, double now,
                    uint32_t step) {
        struct flow_debts d;

        flow_debts_begin(&d, FLOW_DEBTS_NOW, step, step);
        d.same = FLOW_DEBTS_SAME_NOW;
        for (uint32_t p = 0; p < n; p++) {
                struct tcp_socket s = socket_of(1 + p, 0, "10.0.0.1");
                struct tcp_connection t = s.c;

                if (m->sent[host][p] < 0 && m->received[host][p] < 0)
                        continue;
                t.peer[3] = (uint8_t) (10 + p);
                s.figures.bytes_sent = s.figures.bytes_received = 1;
                s.figures.last_data_sent = age(now, m->sent[host][p]);
                s.figures.last_data_recv = age(now, m->received[host][p]);
                t.info = &s.figures;
                t.info_size = sizeof(s.figures);
                flow_debts_take(&d, &c->f, c->run, &t);
        }
        flow_debts_end(&d);
        return owes_all(&d);
}

/* Sockets to all peers that moved in each tick. */
static void know_sockets(struct flow_case *c, uint32_t n) {
        case_init(c);
        for (unsigned tick = 0; tick < 5; tick++) {
                struct tcp_socket s[RANKS_MAX];

                for (uint32_t p = 0; p < n; p++) {
                        s[p] = socket_of(1 + p, 0, "10.0.0.1");
                        s[p].c.peer[3] = (uint8_t) (10 + p);
                        s[p].figures.bytes_sent = 100000ULL * (tick + 1);
                }
                dump(c, s, n);
        }
}

/* The shares of all hosts, one of which computes longer by a part of a step. */
static void measure(enum pattern k, uint32_t n, uint64_t seed, uint32_t slow, double more,
                    struct own_part *parts) {
        static struct wire_event events[EVENTS_MAX];
        static struct moment m;
        struct flow_case c;
        struct training t;
        double step, began, now;

        training_begin(&t, k, n, 0.4, seed);
        t.events = events;
        t.most_events = EVENTS_MAX;
        t.jitter = 0.02;
        t.transfer = 0.001; /* what an exchange itself holds hosts apart by is no part of their own */
        t.factor[slow] = 1 + more;
        training_run(&t, WARM + LOOKED_STEPS + 2, n, 0);
        ASSERT_TRUE(t.n_events < EVENTS_MAX);
        qsort(events, t.n_events, sizeof(*events), by_time);
        step = t.step_done[0] / (WARM + LOOKED_STEPS + 3);
        began = WARM * step;
        know_sockets(&c, n);
        m.next = 0;
        for (uint32_t a = 0; a < n; a++)
                for (uint32_t b = 0; b < n; b++)
                        m.sent[a][b] = m.received[a][b] = -1;
        for (uint32_t h = 0; h < n; h++)
                parts[h] = (struct own_part){ 0, LOOKED_STEPS * LOOKS_A_STEP };
        for (unsigned i = 0; i < LOOKED_STEPS * LOOKS_A_STEP; i++) {
                now = began + i * step / LOOKS_A_STEP * 1.003;
                for (; m.next < t.n_events && events[m.next].at <= now; m.next++) {
                        const struct wire_event *e = &events[m.next];

                        *(e->arrives ? &m.received[e->host][e->peer] : &m.sent[e->host][e->peer]) = e->at;
                }
                for (uint32_t h = 0; h < n; h++)
                        parts[h].share += look_at(&c, &m, h, n, now, (uint32_t) (step * 1000)) /
                                          (double) (LOOKED_STEPS * LOOKS_A_STEP);
        }
        flows_clear(&c.f);
}

/* Found from 5 % of a step on, and never another one; nobody where nobody is slow. */
static void test_found(void) {
        static const enum pattern kinds[] = { RING, ALL_TO_ALL, DOUBLING };
        static const double more[] = { 0, 0.05, 0.1, 0.3, 1 };
        unsigned seed = test_seed();

        for (size_t k = 0; k < ELEMENTSOF(kinds); k++)
                for (size_t f = 0; f < ELEMENTSOF(more); f++) {
                        unsigned right = 0, wrong = 0, rounds = 40;

                        for (unsigned i = 0; i < rounds; i++) {
                                struct own_part parts[RANKS_MAX];
                                uint32_t slow = i % 4;
                                struct own_verdict v;

                                measure(kinds[k], i % 2 ? 8 : 4, seed * 1000ULL + i, slow, more[f], parts);
                                ASSERT_OK(own_part_judge(parts, i % 2 ? 8 : 4, &v));
                                v.found &= !v.alone; /* else what it costs has to prove it */
                                right += v.found && v.host == slow && more[f] > 0;
                                wrong += v.found && (v.host != slow || more[f] <= 0);
                        }
                        printf("%-10s one computes longer by %3.0f %%: named right %2u, wrong %u of %u\n",
                               pattern_names[kinds[k]], 100 * more[f], right, wrong, rounds);
                        ASSERT_EQ(wrong, 0);
                        /* who takes twice as long in a run of one exchange is found by CPU time */
                        if (more[f] > 0 && (more[f] < 1 || kinds[k] == RING))
                                ASSERT_TRUE(right >= rounds * 9 / 10);
                }
}

static void test_cause(void) {
        const struct own_costs others = { { 0.001, 0.002, 0.003, 0.3 }, 0.1 };
        struct own_costs host = others;

        ASSERT_TRUE(strstr(own_cause_text(&host, &others, 0.1), "chips"));
        host.retransmits = 7;
        ASSERT_TRUE(strstr(own_cause_text(&host, &others, 0.1), "path"));
        host.seconds[OWN_WORK] = 0.39;
        ASSERT_TRUE(strstr(own_cause_text(&host, &others, 0.1), "computes more"));
        host.seconds[OWN_DISK] = 0.2;
        ASSERT_TRUE(strstr(own_cause_text(&host, &others, 0.1), "disk"));
        host.seconds[OWN_CPU] = (double) NAN;
        ASSERT_TRUE(strstr(own_cause_text(&host, &others, 0.1), "disk"));
        host.seconds[OWN_MEMORY] = 0.5;
        ASSERT_TRUE(strstr(own_cause_text(&host, &others, 0.1), "memory"));
}

/* --- Through pace
 * ------------------------------------------------------------------------------------------ */

#define T0 (1700000000 * USEC_PER_SEC)

struct world {
        struct pace *pace;
        usec_t now;
        double steps;
        uint64_t looks[4], owed[4];
        double cpu[4];
        bool idle; /* a slow host waits for something that costs nothing */
        unsigned named, over;
        struct pace_verdict last;
};

/* Each host says its figures every ten seconds; in bursts it has looked 250 times meanwhile. */
static void go_on(struct world *w, unsigned tens, double step, bool looks, size_t slow, double share) {
        for (unsigned t = 0; t < tens; t++) {
                w->now += 10 * USEC_PER_SEC;
                w->steps += 10 / step;
                for (size_t h = 0; h < 4; h++) {
                        char name[8];
                        const struct pace_source who = { (int64_t) h, name, "s0", (int64_t) h };
                        struct pace_figures f = { .run = "train",
                                                  .at = w->now + h * 100000,
                                                  .step = (int64_t) w->steps,
                                                  .user = 1,
                                                  .system = 1,
                                                  .waited = 0 };

                        (void) snprintf(name, sizeof(name), "h%zu", h);
                        w->looks[h] += looks ? 250 : 0;
                        w->owed[h] += looks ? (uint64_t) (250 * (h == slow ? share : 0.02)) : 0;
                        w->cpu[h] += 10 / step * (0.3 + (h == slow && !w->idle ? share * step : 0));
                        f.looks = w->looks[h];
                        f.owed = w->owed[h];
                        for (enum own_cost c = 0; c < _OWN_COST_MAX; c++)
                                f.costs.seconds[c] = c == OWN_WORK ? w->cpu[h] : 0;
                        switch (pace_take(w->pace, &who, &f, f.at, &w->last)) {
                        case 0:
                                break;
                        case 1:
                                w->named += !w->last.over;
                                w->over += w->last.over;
                                break;
                        default:
                                ASSERT_TRUE(false);
                        }
                }
        }
}

/* A minute in which one host is slow: named with its cause, and closed when the hosts have looked again. */
static void test_transient(void) {
        struct world w = { .now = T0, .looks = { 1, 1, 1, 1 } };

        ASSERT_OK(pace_new(&w.pace));
        go_on(&w, 6, 0.5, false, 9, 0);
        go_on(&w, 1, 0.5, true, 9, 0);
        go_on(&w, 6, 0.5, false, 9, 0);
        ASSERT_EQ(w.named + w.over, 0);
        go_on(&w, 2, 0.6, false, 2, 0.17);
        go_on(&w, 1, 0.6, true, 2, 0.17);
        ASSERT_EQ(w.named, 1);
        ASSERT_STREQ(w.last.name, "h2");
        if (!strstr(w.last.sentence,
                    "its own part of a step takes 0.09 s longer than that of the 3 others") ||
            !strstr(w.last.sentence, "and took 0.50 s before; it computes more"))
                test_fail(__FILE__, __LINE__, "%s", w.last.sentence);
        go_on(&w, 3, 0.6, false, 2, 0.17);
        go_on(&w, 1, 0.6, true, 2, 0.17);
        ASSERT_EQ(w.named, 1); /* once */
        go_on(&w, 2, 0.5, false, 9, 0);
        go_on(&w, 1, 0.5, true, 9, 0);
        ASSERT_EQ(w.over, 1);
        ASSERT_TRUE(strstr(w.last.sentence, "slows run train down no more, after "));
        (void) pace_free(w.pace);
}

/* One host has nearly all of a step, the others nothing: by looks alone it may be who waited for the
 * slowest. What it costs tells, or that the step has grown with it. */
static void test_alone(void) {
        struct world costs = { .now = T0, .looks = { 1, 1, 1, 1 } },
                     grows = { .now = T0, .looks = { 1, 1, 1, 1 }, .idle = true };

        ASSERT_OK(pace_new(&costs.pace));
        go_on(&costs, 1, 1, false, 2, 0.95);
        go_on(&costs, 2, 1, true, 2, 0.95);
        ASSERT_EQ(costs.named, 1);
        ASSERT_STREQ(costs.last.name, "h2");
        ASSERT_TRUE(strstr(costs.last.sentence, "it computes more"));
        (void) pace_free(costs.pace);

        ASSERT_OK(pace_new(&grows.pace));
        go_on(&grows, 1, 0.5, false, 2, 0.9);
        go_on(&grows, 3, 0.5, true, 2, 0.9); /* as ever */
        ASSERT_EQ(grows.named, 0);
        go_on(&grows, 1, 1, false, 2, 0.95);
        go_on(&grows, 2, 1, true, 1, 0.95); /* another one has become so, with the step */
        ASSERT_EQ(grows.named, 1);
        ASSERT_STREQ(grows.last.name, "h1");
        ASSERT_TRUE(strstr(grows.last.sentence, "neither CPU"));
        (void) pace_free(grows.pace);
}

TEST_MAIN(test_found, test_cause, test_transient, test_alone)
