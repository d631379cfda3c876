/* SPDX-License-Identifier: Apache-2.0 */
#include "pair_judge.h"
#include "pair_rounds.h"
#include "test.h"

#define HOSTS_MAX 70
#define RATES_MAX (HOSTS_MAX * (PAIR_ROUNDS_MAX + 1))
#define GOOD ((uint64_t) 1000000000)
#define BAD  ((uint64_t) 100000000)

struct slice {
        unsigned hosts;
        bool sends[HOSTS_MAX], receives[HOSTS_MAX]; /* slow */
        struct pair_rate rates[RATES_MAX];
        size_t n;
        struct pair_host judged[HOSTS_MAX];
        struct pair_judged sum;
};

/* --- Who meets whom ------------------------------------------------------------------------------------ */

static void test_rounds(void) {
        static const struct {
                unsigned hosts, rounds;
        } rows[] = { { 0, 0 }, { 1, 0 }, { 2, 1 }, { 3, 3 }, { 4, 2 }, { 5, 4 }, { 8, 3 }, { 9, 5 },
                     { 16, 4 }, { 64, 6 }, { 65, 8 }, { 4096, 12 } };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                ASSERT_EQ(pair_rounds(rows[i].hosts), rows[i].rounds);
        for (unsigned n = 0; n <= 4096; n++)
                ASSERT_TRUE(pair_rounds(n) <= PAIR_ROUNDS_MAX);
}

/* In each round a partner's partner is the host itself; no two meet twice, and who pauses does so once. */
static void test_partners(void) {
        for (unsigned n = 2; n <= HOSTS_MAX; n++) {
                static unsigned met[HOSTS_MAX][HOSTS_MAX];

                memset(met, 0, sizeof(met));
                for (unsigned round = 0; round < pair_rounds(n); round++)
                        for (unsigned i = 0; i < n; i++) {
                                int k = pair_partner(n, i, round);

                                ASSERT_TRUE(k >= 0 || n % 2);
                                ASSERT_TRUE(k < (int) n && k != (int) i);
                                if (k >= 0)
                                        ASSERT_EQ(pair_partner(n, (unsigned) k, round), i);
                                met[i][k < 0 ? i : (unsigned) k]++;
                        }
                for (unsigned i = 0; i < n; i++)
                        for (unsigned k = 0; k < n; k++)
                                ASSERT_TRUE(met[i][k] <= 1);
        }
}

static void test_deadlines(void) {
        ASSERT_TRUE(pair_deadline(0, 1) < pair_deadline(1, 1));
        ASSERT_TRUE(pair_deadline(5, 1) < 60 * USEC_PER_SEC);
}

/* --- Who is blamed ------------------------------------------------------------------------------------- */

static uint64_t noisy(uint64_t rate) {
        return rate - rate / 10 + (uint64_t) (unsigned) rand() % (rate / 5);
}

static void measure(struct slice *s) {
        s->n = 0;
        for (unsigned round = 0; round < pair_rounds(s->hosts); round++)
                for (unsigned i = 0; i < s->hosts; i++) {
                        int k = pair_partner(s->hosts, i, round);
                        struct pair_rate *r = &s->rates[s->n];

                        if (k < 0)
                                continue;
                        *r = (struct pair_rate){ .from = i, .to = (unsigned) k };
                        r->rate = noisy(s->sends[i] || s->receives[k] ? BAD : GOOD);
                        s->n++;
                }
        ASSERT_OK(pair_judge(s->rates, s->n, s->judged, s->hosts, &s->sum));
}

static void assert_blamed(const struct slice *s) {
        for (unsigned i = 0; i < s->hosts; i++) {
                ASSERT_EQ(s->judged[i].sends.blamed, s->sends[i]);
                ASSERT_EQ(s->judged[i].receives.blamed, s->receives[i]);
        }
        for (size_t i = 0; i < s->n; i++)
                ASSERT_EQ(s->rates[i].slow, s->rates[i].explained);
}

static void test_nobody(void) {
        for (unsigned n = 0; n <= HOSTS_MAX; n++) {
                static struct slice s;

                s = (struct slice){ .hosts = n };
                measure(&s);
                ASSERT_EQ(s.sum.slow, 0);
                assert_blamed(&s);
        }
}

/* A slow end, a slow host: in every slice of three and more it is named, and none of its peers. */
static void test_one_host(void) {
        for (unsigned n = PAIR_HOSTS_MIN; n <= HOSTS_MAX; n++)
                for (unsigned kind = 1; kind <= 3; kind++) {
                        static struct slice s;
                        unsigned i = (unsigned) rand() % n;

                        if (kind == 3 && n == 3)
                                continue; /* four of six measurements are slow: nobody knows what is usual */
                        s = (struct slice){ .hosts = n };
                        s.sends[i] = kind & 1;
                        s.receives[i] = kind & 2;
                        measure(&s);
                        assert_blamed(&s);
                        ASSERT_TRUE(s.sum.slow > 0);
                }
}

static void test_two_hosts_cannot_say(void) {
        struct pair_rate rates[] = { { .from = 0, .to = 1, .rate = BAD },
                                     { .from = 1, .to = 0, .rate = GOOD } };
        struct pair_host hosts[2];
        struct pair_judged j;

        ASSERT_OK(pair_judge(rates, 2, hosts, 2, &j));
        ASSERT_EQ(j.slow, 0);
        ASSERT_EQ(j.median, GOOD);
}

/* Fewer slow ends than a host has rounds: all are named, and nobody else. */
static void test_some_hosts(void) {
        for (unsigned turn = 0; turn < 3000; turn++) {
                static struct slice s;
                unsigned slow;

                s = (struct slice){ .hosts = 8 + (unsigned) rand() % (HOSTS_MAX - 7) };
                slow = (unsigned) rand() % (pair_rounds(s.hosts) - s.hosts % 2);
                for (unsigned i = 0; i < slow; i++)
                        (rand() % 2 ? s.sends : s.receives)[(unsigned) rand() % s.hosts] = true;
                measure(&s);
                assert_blamed(&s);
        }
}

/* One slow path blames nobody: it is left unexplained. */
static void test_one_path(void) {
        static struct slice s;

        s = (struct slice){ .hosts = 8 };
        measure(&s);
        s.rates[5].rate = BAD;
        ASSERT_OK(pair_judge(s.rates, s.n, s.judged, s.hosts, &s.sum));
        ASSERT_EQ(s.sum.slow, 1);
        ASSERT_TRUE(s.rates[5].slow && !s.rates[5].explained);
        for (unsigned i = 0; i < s.hosts; i++)
                ASSERT_FALSE(s.judged[i].sends.blamed || s.judged[i].receives.blamed);
}

/* Rates that are spread by themselves are not slow for being low. */
static void test_spread(void) {
        static struct slice s;

        s = (struct slice){ .hosts = 64 };
        measure(&s);
        for (size_t i = 0; i < s.n; i++)
                s.rates[i].rate = GOOD / 2 + (uint64_t) (unsigned) rand() % GOOD;
        ASSERT_OK(pair_judge(s.rates, s.n, s.judged, s.hosts, &s.sum));
        ASSERT_EQ(s.sum.slow, 0);
}

/* Whatever was measured: what is blamed is slow in all, explains something that nothing else does, and what
 * can be explained is. */
static void test_any_rates(void) {
        for (unsigned turn = 0; turn < 3000; turn++) {
                static struct slice s;

                s = (struct slice){ .hosts = 3 + (unsigned) rand() % 20 };
                measure(&s);
                for (size_t i = 0; i < s.n; i++)
                        s.rates[i].rate = rand() % 3 == 0 ? BAD : noisy(GOOD);
                s.n -= (size_t) rand() % s.n; /* some could not be measured */
                ASSERT_OK(pair_judge(s.rates, s.n, s.judged, s.hosts, &s.sum));
                for (size_t i = 0; i < s.n; i++) {
                        const struct pair_rate *r = &s.rates[i];
                        const struct pair_end *ends[] = { &s.judged[r->from].sends,
                                                          &s.judged[r->to].receives };

                        ASSERT_EQ(r->slow, r->rate < s.sum.limit);
                        ASSERT_EQ(r->explained, r->slow && (ends[0]->blamed || ends[1]->blamed));
                        for (unsigned k = 0; k < 2 && r->slow && !r->explained; k++)
                                ASSERT_TRUE(ends[k]->measured < 2 || ends[k]->slow < ends[k]->measured);
                }
                for (unsigned e = 0; e < 2 * s.hosts; e++) {
                        const struct pair_host *h = &s.judged[e / 2];
                        const struct pair_end *x = e % 2 ? &h->receives : &h->sends;
                        unsigned alone = 0;

                        for (size_t i = 0; i < s.n && x->blamed; i++)
                                if ((e % 2 ? s.rates[i].to : s.rates[i].from) == e / 2)
                                        alone += e % 2 ? !s.judged[s.rates[i].from].sends.blamed
                                                       : !s.judged[s.rates[i].to].receives.blamed;
                        ASSERT_TRUE(!x->blamed || (x->slow == x->measured && alone > 0));
                }
        }
}

static void test_seed_first(void) {
        srand(test_seed());
}

TEST_MAIN(test_seed_first, test_rounds, test_partners, test_deadlines, test_nobody, test_one_host,
          test_two_hosts_cannot_say, test_some_hosts, test_one_path, test_spread, test_any_rates)
