/* SPDX-License-Identifier: Apache-2.0 */
/* Who slows a run down, out of what its hosts push every few seconds. */
#include <math.h>

#include "pace.h"
#include "test.h"

#define T0 (1700000000 * USEC_PER_SEC)
#define PUSH (10 * USEC_PER_SEC)

struct world {
        struct pace *pace;
        usec_t now;
        double cpu[64], steps;
        unsigned told, host; /* how often somebody was named, and whom last */
        struct pace_verdict last;
};

static struct world world_new(void) {
        struct world w = { .now = T0 };

        ASSERT_OK(pace_new(&w.pace));
        return w;
}

static int report(struct world *w, const struct pace_source *who, const char *run, int64_t step, double user,
                  double system, double waited, usec_t at) {
        const struct pace_figures f = {
                .run = run, .at = at, .step = step, .user = user, .system = system, .waited = waited
        };

        return pace_take(w->pace, who, &f, MAX(at, w->now), &w->last);
}

/* Pushes of n hosts for so long: steps of that many seconds; each host computes for busy[i] of a step. */
static void run(struct world *w, const char *run, size_t n, double step_seconds, const double *busy,
                usec_t span) {
        for (usec_t end = w->now + span; w->now < end; w->now += PUSH) {
                w->steps += 10 / step_seconds;
                for (size_t i = 0; i < n; i++) {
                        char name[16];
                        const struct pace_source who = { (int64_t) i + 1, name, i < 2 ? "s0" : "s1",
                                                         (int64_t) i % 2 };
                        usec_t at = w->now + i * USEC_PER_SEC / 4; /* hosts push when they like */
                        int r;

                        (void) snprintf(name, sizeof(name), "h%zu", i);
                        w->cpu[i] += 10 / step_seconds * busy[i];
                        r = report(w, &who, run, (int64_t) w->steps, w->cpu[i] * 0.5, w->cpu[i] * 0.25,
                                   w->cpu[i] * 0.25, at);
                        ASSERT_TRUE(r >= 0);
                        w->told += (unsigned) r;
                }
        }
}

#define MINUTES(n) ((n) *60 * USEC_PER_SEC)

/* A host that takes twice as long from some moment on: named within four windows and a half. */
static void test_slow(void) {
        const double healthy[] = { 0.15, 0.14, 0.16, 0.15 };

        for (size_t odd = 0; odd < 4; odd++) {
                struct world w = world_new();
                double slow[4];

                memcpy(slow, healthy, sizeof(slow));
                slow[odd] += 0.7;
                run(&w, "train", 4, 0.7, healthy, MINUTES(10));
                ASSERT_EQ(w.told, 0);
                run(&w, "train", 4, 1.4, slow, 150 * USEC_PER_SEC);
                ASSERT_EQ(w.told, 1);
                run(&w, "train", 4, 1.4, slow, MINUTES(20));
                ASSERT_EQ(w.told, 1); /* once */
                w.last = (struct pace_verdict){ 0 };
                run(&w, "train", 4, 0.7, healthy, MINUTES(20)); /* it is well again, and slow again */
                ASSERT_EQ(w.told, 2);
                ASSERT_TRUE(w.last.over);
                run(&w, "train", 4, 1.4, slow, MINUTES(3));
                ASSERT_EQ(w.told, 3);
                ASSERT_EQ(w.last.host, (int64_t) odd + 1);
                ASSERT_EQ(w.last.hosts, 4);
                ASSERT_TRUE(strstr(w.last.sentence, "of 4 windows it computed, or wanted a CPU, for 0."));
                ASSERT_TRUE(
                        startswith(w.last.sentence, odd < 2 ? "slice s0, worker " : "slice s1, worker "));
                ASSERT_TRUE(strstr(w.last.sentence, " s, and took 0.70 s before"));
                (void) pace_free(w.pace);
        }
}

/* Nobody waits for a first rank that does a little more, all that are slow alike have no culprit, a pause is
 * no slowness, and two hosts are too few to tell. */
static void test_nobody(void) {
        const double first[] = { 0.32, 0.15, 0.15, 0.15 }, all[] = { 0.9, 0.85, 0.92, 0.88 },
                     healthy[] = { 0.15, 0.15, 0.15, 0.15 }, pause[] = { 20, 0.2, 0.2, 0.2 };
        struct world w = world_new();

        run(&w, "train", 4, 0.7, first, MINUTES(15));
        run(&w, "train", 4, 1.4, all, MINUTES(15));
        for (unsigned i = 0; i < 5; i++) {
                run(&w, "train", 4, 0.7, healthy, MINUTES(4));
                run(&w, "train", 4, 50, pause, 50 * USEC_PER_SEC);
        }
        run(&w, "two", 2, 1.4, (const double[]){ 0.15, 0.9 }, MINUTES(10));
        ASSERT_EQ(w.told, 0);
        (void) pace_free(w.pace);
}

/* Two runs of one name that have nothing to do with each other: their steps do not rise alike. */
static void test_not_one_run(void) {
        struct world w = world_new();

        for (usec_t end = w.now + MINUTES(15); w.now < end; w.now += PUSH)
                for (int64_t i = 0; i < 6; i++) {
                        const struct pace_source who = { i, "h", "", -1 };
                        uint64_t ticks = (w.now - T0) / PUSH;
                        double busy = i == 3 ? 9 : 1 + (double) i / 100;

                        ASSERT_OK(report(&w, &who, "train", (int64_t) (ticks * (uint64_t) (10 << i)),
                                         (double) ticks * busy, 0, (double) NAN, w.now));
                }
        (void) pace_free(w.pace);
}

/* A restart sets counters back; pushes that were held back on the way come late; more runs than are kept. */
static void test_disorder(void) {
        const double slow[] = { 0.15, 0.9, 0.16, 0.15 };
        const struct pace_source who = { 1, "h0", NULL, -1 };
        struct world w = world_new();
        char name[300];

        for (unsigned i = 0; i < 6; i++) {
                run(&w, "train", 4, 1.4, slow, 100 * USEC_PER_SEC);
                memset(w.cpu, 0, sizeof(w.cpu));
                w.steps = 0;
        }
        ASSERT_EQ(w.told, 0); /* no start of it lasted four windows */
        ASSERT_OK(report(&w, &who, "train", -1, 1e9, 1e9, 0, T0));
        ASSERT_OK(report(&w, &who, "train", -1, -1, 0, 0, w.now));
        ASSERT_OK(report(&w, &who, "train", -1, (double) NAN, 0, 0, w.now));
        for (unsigned i = 0; i < 3 * PACE_RUNS_MAX; i++) {
                const struct pace_source any = { 100 + i / 8, "h", NULL, -1 };

                (void) snprintf(name, sizeof(name), "run%u", i);
                ASSERT_OK(report(&w, &any, name, 1, 0, 0, 0,
                                 w.now + (i >= PACE_RUNS_MAX ? MINUTES(20) : 0)));
        }
        memset(name, 'x', sizeof(name) - 1);
        name[sizeof(name) - 1] = 0;
        ASSERT_OK(report(&w, &who, name, 1, 0, 0, 0, w.now));
        (void) pace_free(w.pace);
}

/* A host that speaks of more runs than are kept, of each first at a time apart from the others' and then of
 * all as of now: those of others are watched as before. */
static void runs_of_one_host(usec_t apart) {
        const double healthy[] = { 0.15, 0.14, 0.16, 0.15 }, slow[] = { 0.15, 0.84, 0.16, 0.15 };
        const struct pace_source liar = { 77, "liar", NULL, -1 };
        struct world w = world_new();
        char name[32];

        for (unsigned minute = 0; minute < 10; minute++) {
                for (unsigned i = 0; i < 2 * PACE_RUNS_MAX; i++) {
                        usec_t before = i < PACE_RUNS_MAX ? (PACE_RUNS_MAX - i) * apart : 0;

                        (void) snprintf(name, sizeof(name), "run%u", i % PACE_RUNS_MAX);
                        ASSERT_OK(report(&w, &liar, name, 1, 0, 0, 0, w.now - before));
                }
                run(&w, "train", 4, 0.7, healthy, MINUTES(1));
        }
        run(&w, "train", 4, 1.4, slow, 150 * USEC_PER_SEC);
        ASSERT_EQ(w.told, 1);
        (void) pace_free(w.pace);
}

static void test_runs_of_one_host(void) {
        runs_of_one_host(0);
        runs_of_one_host(PACE_FORGOTTEN + USEC_PER_SEC);
}

TEST_MAIN(test_slow, test_runs_of_one_host, test_nobody, test_not_one_run, test_disorder)
