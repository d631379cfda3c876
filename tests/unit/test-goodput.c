/* SPDX-License-Identifier: Apache-2.0 */
/* Where a run's time went: by cause, and all of it. */
#include "goodput.h"
#include "rhythm.h"
#include "test.h"

#define S USEC_PER_SEC

static void of_a_run(void) {
        struct goodput g = { .mark = 0 };
        usec_t now = 100 * S;

        goodput_step(&g, 0, now, S, 0, GOODPUT_STALL); /* not begun: nothing is counted */
        ASSERT_EQ(goodput_total(&g), 0);
        goodput_begin(&g, now, false);
        now += 60 * S;
        goodput_step(&g, 0, now, 0, 12 * S, GOODPUT_STALL);
        ASSERT_EQ(g.spent[GOODPUT_START], 48 * S);
        ASSERT_EQ(g.spent[GOODPUT_COMPILE], 12 * S);
        for (uint64_t n = 1; n <= 10; n++)
                goodput_step(&g, n, now += 2 * S, 0, 0, GOODPUT_STALL); /* what is usual is not known yet */
        ASSERT_EQ(g.spent[GOODPUT_STEP], 20 * S);
        goodput_step(&g, 11, now += 47 * S, 2 * S, 0, GOODPUT_CHECKPOINT);
        ASSERT_EQ(g.spent[GOODPUT_CHECKPOINT], 45 * S);
        ASSERT_EQ(g.spent[GOODPUT_STEP], 22 * S);
        goodput_lose(&g, now + 14 * S, 2 * S, GOODPUT_STALL); /* shown while it lasts */
        ASSERT_EQ(g.spent[GOODPUT_STALL], 12 * S);
        goodput_lose(&g, now + 24 * S, 2 * S, GOODPUT_STALL);
        goodput_step(&g, 12, now += 30 * S, 2 * S, 0, GOODPUT_STALL);
        ASSERT_EQ(g.spent[GOODPUT_STALL], 28 * S);
        ASSERT_EQ(g.spent[GOODPUT_STEP], 24 * S);
        goodput_end(&g, now += S, GOODPUT_STEP);
        goodput_begin(&g, now += 20 * S, true); /* started again */
        goodput_step(&g, 8, now += 30 * S, 0, 10 * S, GOODPUT_STALL);
        for (uint64_t n = 9; n <= 14; n++)
                goodput_step(&g, n, now += 2 * S, 2 * S, 0, GOODPUT_STALL);
        ASSERT_EQ(g.spent[GOODPUT_RESTART], (20 + 20 + 3 * 2) * S); /* 9, 10 and 11 had been made before */
        ASSERT_EQ(g.spent[GOODPUT_COMPILE], 22 * S);
        ASSERT_EQ(goodput_total(&g), now - 100 * S);
}

/* Whatever happens in whatever order, nothing is counted twice and nothing is left out. */
static void adds_up(void) {
        srand(test_seed());
        for (unsigned round = 0; round < 2000; round++) {
                struct goodput g = { .mark = 0 }, before;
                usec_t begun = S + (usec_t) rand() % (100 * S), now = begun;

                goodput_begin(&g, now, false);
                for (unsigned i = 0; i < 50; i++) {
                        enum goodput_cause cause = (enum goodput_cause) (rand() % _GOODPUT_MAX);
                        usec_t usual = (usec_t) rand() % (5 * S);

                        before = g;
                        if (rand() % 8) /* a clock that stands, now and then */
                                now += (usec_t) rand() % (20 * S);
                        switch (rand() % 5) {
                        case 0:
                                goodput_begin(&g, now, true);
                                break;
                        case 1:
                                goodput_lose(&g, now, usual, cause);
                                break;
                        case 2:
                                goodput_end(&g, now, cause);
                                break;
                        default:
                                goodput_step(&g, (uint64_t) rand() % 100, now, usual,
                                             (usec_t) rand() % (30 * S), cause);
                                break;
                        }
                        ASSERT_EQ(goodput_total(&g), g.mark - begun);
                        for (enum goodput_cause c = 0; c < _GOODPUT_MAX; c++)
                                ASSERT_TRUE(g.spent[c] >= before.spent[c]);
                }
        }
}

static void histogram(void) {
        struct step_times t = { .n = 0 };
        uint64_t sum = 0;

        step_times_add(&t, S, 1);
        step_times_add(&t, 20 * S, 10); /* a line each ten steps */
        step_times_add(&t, 1000 * S, 1);
        step_times_add(&t, S, 0);
        step_times_add(&t, S, UINT64_MAX);
        ASSERT_EQ(t.n, 12);
        ASSERT_TRUE(fabs(t.sum - 1021) < 1e-9 && fabs(t.min - 1) < 1e-9 && fabs(t.max - 1000) < 1e-9);
        for (size_t i = 0; i <= STEP_TIMES_BOUNDS; i++) {
                sum += t.counts[i];
                ASSERT_TRUE(i == 0 || i >= STEP_TIMES_BOUNDS ||
                            step_times_bounds[i] > step_times_bounds[i - 1]);
                if (i < STEP_TIMES_BOUNDS && fabs(step_times_bounds[i] - 2) < 1e-9)
                        ASSERT_EQ(t.counts[i], 10); /* at its bound, it is below */
        }
        ASSERT_EQ(sum, t.n);
        ASSERT_EQ(t.counts[STEP_TIMES_BOUNDS], 1);
}

TEST_MAIN(of_a_run, adds_up, histogram)
