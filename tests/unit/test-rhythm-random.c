/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs out of a generator, with noise, logs of several steps a line, checkpoints, evaluations and recompiles
 * of 45 s and more from the first on: what stops for good is suspected in bound, wherever it stops; what is
 * healthy is suspected at its pauses alone, and nobody is to look at all hosts for one that its log or its
 * work explains.
 */
#include "suspicion.h"
#include "test.h"

#define S USEC_PER_SEC
#define TICK (10 * S)

static uint64_t state;

static double uniform(void) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (double) (state >> 11) / (double) (UINT64_C(1) << 53);
}

static unsigned from_to(unsigned low, unsigned high) {
        return low + (unsigned) (uniform() * (high - low + 1));
}

enum told { TOLD_NOTHING, TOLD_BEGIN, TOLD_BOTH };

struct kind_of_pause {
        unsigned every; /* steps; 0: there is none of the kind */
        double seconds, cores, written;
        enum told told;
        enum pause_kind kind;
};

struct run {
        struct run_watch w;
        struct activity_reading counters;
        usec_t now, tick;
        double step_seconds, noise, cores, net;
        unsigned lines_every;
        struct kind_of_pause pauses[3];
        double cores_now, net_now, written_now;
        unsigned suspected, counted, in_pauses;
        char counted_why[SUSPICION_WHY_MAX];
        bool pausing; /* since the last step there was a pause */
};

static void count(struct run *r) {
        double span = (double) (r->now - r->counters.at) / S;

        r->counters.cpu_usec += (int64_t) (r->cores_now * span * S);
        r->counters.net_bytes += (int64_t) (r->net_now * span);
        r->counters.written_bytes += (int64_t) (r->written_now * span);
        r->counters.at = r->now;
}

static void pass(struct run *r, double seconds) {
        usec_t end = r->now + (usec_t) (seconds * S);

        for (;;) {
                usec_t due = run_watch_due(&r->w), next = MIN(due, r->tick);
                struct suspicion ended;
                enum run_judged judged;

                if (next > end)
                        break;
                r->now = MAX(next, r->now);
                count(r);
                if (r->now >= r->tick)
                        r->tick = r->now + TICK;
                ASSERT_FALSE(run_watch_reading(&r->w, &r->counters, &ended));
                judged = run_watch_judge(&r->w, r->now);
                r->suspected += judged == RUN_JUDGED_SUSPECTED;
                r->in_pauses += judged == RUN_JUDGED_SUSPECTED && r->pausing;
                if (judged == RUN_JUDGED_SUSPECTED && getenv("SAY"))
                        printf("%s (pausing %d, steps %.1f, noise %.2f)\n", r->w.suspicion.why, r->pausing,
                               r->step_seconds, r->noise);
                if (judged == RUN_JUDGED_COUNTS || (judged == RUN_JUDGED_SUSPECTED && r->w.suspicion.counts))
                        memcpy(r->counted_why, r->w.suspicion.why, sizeof(r->counted_why));
                r->counted += (judged == RUN_JUDGED_SUSPECTED &&
                               r->w.suspicion.counts) || judged == RUN_JUDGED_COUNTS;
        }
        r->now = end;
        count(r);
}

static void say(struct run *r, const char *text) {
        run_watch_line(&r->w, text, strlen(text), r->now);
}

static void pause_now(struct run *r, const struct kind_of_pause *p) {
        static const char *const begins[] = { [PAUSE_COMPILE] = "Compiling jit(train_step) with global "
                                                                "shapes and types",
                                              [PAUSE_CHECKPOINT] = "saving checkpoint at iteration 7 to "
                                                                   "/data",
                                              [PAUSE_EVALUATION] = "***** Running Evaluation *****" };
        static const char *const ends[] = { [PAUSE_COMPILE] = "Finished XLA compilation of jit(train_step) "
                                                              "in 45.1 sec",
                                            [PAUSE_CHECKPOINT] = "successfully saved checkpoint from "
                                                                 "iteration 7 to /data",
                                            [PAUSE_EVALUATION] = "eval metrics after step: 4, loss=9.855" };
        double seconds = p->seconds * (0.9 + 0.2 * uniform());

        r->pausing = true;
        r->cores_now = p->cores;
        r->net_now = 0;
        r->written_now = p->written;
        if (p->told != TOLD_NOTHING)
                say(r, begins[p->kind]);
        pass(r, seconds);
        if (p->told == TOLD_BOTH)
                say(r, ends[p->kind]);
        r->cores_now = r->cores;
        r->net_now = r->net;
        r->written_now = 1000;
}

static void step(struct run *r, unsigned n) {
        struct run_stepped ended;

        for (size_t i = 0; i < ELEMENTSOF(r->pauses); i++)
                /* one at a time */
                if (r->pauses[i].every > 0 && n > 0 && n % r->pauses[i].every == 0 && !r->pausing)
                        pause_now(r, &r->pauses[i]);
        pass(r, r->step_seconds * (1 - r->noise + 2 * r->noise * uniform()));
        if (n % r->lines_every == 0)
                (void) run_watch_step(&r->w, n, r->now, &ended);
        r->pausing = false;
}

/* told: whether each pause says what it is, or shows by what it does. */
static void make(struct run *r, bool told) {
        static const double steps[] = { 0.3, 1, 2.5, 4, 7, 12, 30 };

        *r = (struct run){
                .now = 1000 * S,
                .tick = 1000 * S + (usec_t) (uniform() * TICK),
                .step_seconds = steps[from_to(0, ELEMENTSOF(steps) - 1)] * (0.8 + 0.4 * uniform()),
                .noise = uniform() * 0.3,
                .cores = 0.5 + uniform() * 6,
                .net = 1e5 + uniform() * 1e8,
                .lines_every = 1,
        };
        r->counters.at = r->now;
        r->counters.device_idle = -1;
        for (size_t i = 0; i < ELEMENTSOF(r->pauses); i++) {
                struct kind_of_pause *p = &r->pauses[i];

                *p = (struct kind_of_pause){ .every = from_to(0, 3) == 0 ? 0 : from_to(6, 60),
                                             .seconds = 45 + uniform() * 6,
                                             .cores = r->cores * 0.7,
                                             .written = 1000,
                                             .told = told ? (enum told) from_to(TOLD_BEGIN, TOLD_BOTH)
                                                     : TOLD_NOTHING,
                                             .kind = (enum pause_kind) (PAUSE_COMPILE + i) };
                if (p->kind == PAUSE_COMPILE)
                        p->cores = r->cores + 2 + r->cores;
                if (p->kind == PAUSE_CHECKPOINT)
                        p->written = 30e6;
                if (!told && p->kind == PAUSE_EVALUATION)
                        /* it neither writes nor burns more, and says nothing: that is by_place's */
                        p->every = 0;
        }
        r->cores_now = r->cores;
        r->net_now = r->net;
        r->written_now = 1000;
        run_watch_init(&r->w);
}

static unsigned rounds(void) {
        return getenv("FULL") ? 20000 : 500;
}

static void healthy(void) {
        unsigned suspected = 0, steps = 0, pauses = 0;

        for (unsigned i = 0; i < rounds(); i++) {
                struct run r;
                unsigned n = from_to(80, 400);

                make(&r, i % 2);
                for (unsigned k = 0; k < n; k++)
                        step(&r, k);
                ASSERT_EQ(r.suspected, r.in_pauses); /* at pauses alone */
                if (i % 2) /* the log said it, and something was done meanwhile */
                        if (r.suspected > 0)
                                test_fail(__FILE__, __LINE__, "round %u: suspected: %s (steps of %.1f s)", i,
                                          r.w.suspicion.why,
                                          r.step_seconds);
                if (r.counted > 0)
                        test_fail(__FILE__, __LINE__,
                                  "round %u: a look at all hosts for a pause: %s (steps of %.1f s)", i,
                                  r.counted_why, r.step_seconds);
                suspected += r.suspected;
                steps += n;
                for (size_t k = 0; k < ELEMENTSOF(r.pauses); k++)
                        pauses += r.pauses[k].every > 0 ? (n - 1) / r.pauses[k].every : 0;
        }
        printf("healthy: %u steps, %u pauses, %u suspicions without a confirmation, 0 looks at all hosts\n",
               steps, pauses, suspected);
}

/* It stops between two steps, at any place; what still moves is not more than in a step. */
static void stalled(void) {
        double worst = 0;

        for (unsigned i = 0; i < rounds(); i++) {
                struct run r;
                unsigned n = from_to(40, 200);
                usec_t stopped, bound;

                make(&r, i % 2);
                for (unsigned k = 0; k < n; k++)
                        step(&r, k);
                if (pauses_expected(&r.w.pauses, r.w.last_step) > 0)
                        continue; /* where a pause is due, it is waited for */
                stopped = r.now + (usec_t) (uniform() * 0.5 * r.step_seconds * S); /* within a step */
                pass(&r, (double) (stopped - r.now) / S);
                r.suspected = r.counted = 0;
                r.cores_now = r.cores * uniform(); /* idle, or one thread that spins */
                r.net_now = 0;
                pass(&r, 1000);
                ASSERT_EQ(r.suspected, 1);
                ASSERT_EQ(r.counted, 1);
                bound = MAX(10 * S, (usec_t) (2.5 * r.step_seconds * (1 + r.noise) * S));
                if (r.w.suspicion.at > stopped + bound)
                        test_fail(__FILE__, __LINE__, "round %u: %.1f s after it stopped: %s", i,
                                  (double) (r.w.suspicion.at - stopped) / S, r.w.suspicion.why);
                worst = MAX(worst, (double) (r.w.suspicion.at - stopped) / (double) bound);
        }
        printf("stalled: suspected after %.2f of the bound at worst\n", worst);
}

static void seeded(void) {
        state = test_seed();
        (void) uniform();
}

TEST_MAIN(seeded, healthy, stalled)
