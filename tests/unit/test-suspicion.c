/* SPDX-License-Identifier: Apache-2.0 */
/* Suspicion of single runs, step by step. Rhythms out of a generator: test-rhythm-random.c. */
#include "suspicion.h"
#include "test.h"

#define S USEC_PER_SEC

/* A run that makes steps, and counters that are read every ten seconds. */
struct scene {
        struct run_watch w;
        usec_t now, read_at;
        struct activity_reading counters;
        double cores, written, net;
        uint64_t step;
        unsigned suspected, counts, recovered;
};

static void begin(struct scene *c) {
        *c = (struct scene){ .now = 1000 * S, .read_at = 1000 * S, .cores = 3, .net = 5e6,
                             .counters = { .device_idle = -1 } };
        run_watch_init(&c->w);
}

static void read_now(struct scene *c) {
        double span = (double) (c->now - c->counters.at) / S;
        struct suspicion ended;

        if (c->counters.at > 0) {
                c->counters.cpu_usec += (int64_t) (c->cores * span * S);
                c->counters.written_bytes += (int64_t) (c->written * span);
                c->counters.net_bytes += (int64_t) (c->net * span);
        }
        c->counters.at = c->now;
        c->recovered += run_watch_reading(&c->w, &c->counters, &ended);
}

/* Time goes on to at: ticks, and the timer, as the agent does it. */
static void pass(struct scene *c, usec_t span) {
        usec_t end = c->now + span;

        for (;;) {
                usec_t due = run_watch_due(&c->w), next = MIN(due, c->read_at + 10 * S);

                if (next > end)
                        break;
                c->now = MAX(next, c->now);
                read_now(c);
                if (c->now >= c->read_at + 10 * S)
                        c->read_at = c->now;
                switch (run_watch_judge(&c->w, c->now)) {
                case RUN_JUDGED_SAME:
                        break;
                case RUN_JUDGED_SUSPECTED:
                        c->suspected++;
                        c->counts += c->w.suspicion.counts;
                        break;
                case RUN_JUDGED_COUNTS:
                        c->counts++;
                        break;
                }
        }
        c->now = end;
}

static enum run_step step(struct scene *c, uint64_t number) {
        struct run_stepped ended;
        enum run_step is = run_watch_step(&c->w, number, c->now, &ended);

        c->recovered += ended.ended.suspected;
        c->step = number;
        return is;
}

static void steps(struct scene *c, unsigned n, usec_t each) {
        for (unsigned i = 0; i < n; i++) {
                pass(c, each);
                (void) step(c, c->step + 1);
        }
}

static void line(struct scene *c, const char *text) {
        run_watch_line(&c->w, text, strlen(text), c->now);
}

static void bounds(void) {
        static const usec_t each[] = { S / 10, S, 4 * S, 6 * S, 10 * S, 60 * S };

        for (size_t i = 0; i < ELEMENTSOF(each); i++) {
                struct scene c;
                usec_t stopped;

                begin(&c);
                ASSERT_EQ(run_watch_due(&c.w), USEC_INFINITY); /* nothing is known: nothing is suspected */
                pass(&c, 100 * S);
                (void) step(&c, 0);
                steps(&c, 50, each[i]);
                ASSERT_EQ(c.suspected, 0);
                stopped = c.now;
                c.net = 0;
                pass(&c, 1000 * S);
                ASSERT_EQ(c.suspected, 1); /* once */
                ASSERT_EQ(c.counts, 1);
                ASSERT_TRUE(c.w.suspicion.at - stopped <= MAX(10 * S, each[i] * 5 / 2));
                ASSERT_TRUE(c.w.suspicion.at - stopped > MAX(8 * S, each[i] * 2));
                ASSERT_EQ(c.w.suspicion.kind, SUSPICION_STALL);
                ASSERT_EQ(c.w.suspicion.last_step, 50);
                ASSERT_EQ(c.w.suspicion.since, stopped);
                (void) step(&c, 51);
                ASSERT_EQ(c.recovered, 1);
                ASSERT_FALSE(c.w.suspicion.suspected);
        }
}

/* Steps are not seen while nobody takes the run's lines; then it is waited for them anew. */
static void blind(void) {
        struct scene c;

        begin(&c);
        (void) step(&c, 0);
        steps(&c, 50, S);
        for (unsigned i = 0; i < 40; i++) {
                pass(&c, 5 * S);
                run_watch_blind(&c.w, c.now);
        }
        ASSERT_EQ(c.suspected, 0);
        pass(&c, 8 * S);
        ASSERT_EQ(c.suspected, 0);
        pass(&c, 2 * S);
        ASSERT_EQ(c.suspected, 1);
        c.counts = 0;
        c.w.suspicion.counts = false;
        for (unsigned i = 0; i < 20; i++) { /* and what is suspected does not count */
                run_watch_blind(&c.w, c.now);
                pass(&c, 9 * S);
        }
        ASSERT_EQ(c.counts, 0);
}

static void why(void) {
        struct scene c;

        begin(&c);
        (void) step(&c, 0);
        steps(&c, 50, 4 * S);
        c.cores = 1;
        c.net = 0;
        pass(&c, 14 * S);
        ASSERT_EQ(c.suspected, 1);
        ASSERT_STREQ(c.w.suspicion.why, "no step for 10 s after step 50, steps took 4.0 s (median of 50), "
                                        "the run's CPU fell from "
                                        "3.0 to 1.0 cores, the network fell from 5.00 to 0.00 MB/s, its log "
                                        "is silent for 10 s");
}

/* Before the rhythm is known. */
static void early(void) {
        struct scene c;

        begin(&c);
        (void) step(&c, 0);
        pass(&c, 599 * S); /* the second step is compiled, too */
        ASSERT_EQ(c.suspected, 0);
        (void) step(&c, 1);
        steps(&c, 1, S);
        pass(&c, 599 * S);
        ASSERT_EQ(c.suspected, 0);
        begin(&c);
        (void) step(&c, 0);
        steps(&c, 1, S);
        pass(&c, 61 * S);
        ASSERT_EQ(c.suspected, 1);
        ASSERT_EQ(c.w.suspicion.at - c.w.suspicion.since, 60 * S);
}

static void several_processes(void) {
        struct scene c;

        begin(&c);
        ASSERT_EQ(step(&c, 10), RUN_STEP_FORWARD);
        for (uint64_t n = 11; n < 40; n++) {
                pass(&c, 4 * S);
                ASSERT_EQ(step(&c, n), RUN_STEP_FORWARD);
                ASSERT_EQ(step(&c, n), RUN_STEP_SAME);
                pass(&c, S / 10);
                ASSERT_EQ(step(&c, n - 1), RUN_STEP_SAME); /* of a process that says it late */
        }
        ASSERT_EQ(rhythm_median(&c.w.rhythm), 4 * S + S / 10);
        pass(&c, 4 * S);
        ASSERT_EQ(step(&c, 20), RUN_STEP_BACK); /* from a checkpoint */
        pass(&c, 4 * S);
        ASSERT_EQ(step(&c, 21), RUN_STEP_FORWARD);
        pass(&c, 8 * S);
        ASSERT_EQ(step(&c, 20), RUN_STEP_BACK); /* by one step only, but late for another process */
        ASSERT_EQ(c.suspected, 0);
}

/* A pause that the log announces, in which something is done: no suspicion, the first time and later. */
static void announced(void) {
        static const struct {
                const char *begins, *ends;
                enum pause_kind kind;
        } pauses[] = {
                { "saving checkpoint at iteration     100 to /data/ckpt in torch_dist format",
                  "  successfully saved checkpoint from iteration     100 to /data/ckpt", PAUSE_CHECKPOINT },
                { "***** Running Evaluation *****",
                  "eval metrics after step: 4, loss=9.855, total_weights=75264.0",
                  PAUSE_EVALUATION },
                { "Compiling jit(train_step) with global shapes and types (ShapedArray(float32[8]),).",
                  "Finished XLA compilation of jit(train_step) in 45.15 sec", PAUSE_COMPILE },
        };

        for (size_t i = 0; i < ELEMENTSOF(pauses); i++) {
                struct scene c;

                begin(&c);
                (void) step(&c, 0);
                for (unsigned round = 0; round < 3; round++) {
                        steps(&c, 7 + 4 * round, S);
                        line(&c, pauses[i].begins);
                        pass(&c, 55 * S);
                        line(&c, pauses[i].ends);
                        ASSERT_EQ(c.suspected, 0);
                        pass(&c, S);
                        (void) step(&c, c.step + 1);
                        ASSERT_EQ(c.w.pauses.longest[pauses[i].kind], 55 * S);
                }
                /* A pause that is over does not hide a stall behind it. */
                line(&c, pauses[i].begins);
                pass(&c, 5 * S);
                line(&c, pauses[i].ends);
                pass(&c, 90 * S);
                ASSERT_EQ(c.suspected, 1);
        }
}

/* In an announced pause nothing is done: it is suspected in time, and the suspicion says what was
 * announced. */
static void announced_and_idle(void) {
        struct scene c;

        begin(&c);
        (void) step(&c, 0);
        steps(&c, 60, S);
        line(&c, "evaluating on 4 batches");
        c.cores = c.net = 0;
        pass(&c, 15 * S);
        ASSERT_EQ(c.suspected, 1);
        ASSERT_EQ(c.w.suspicion.kind, SUSPICION_PAUSE);
        pass(&c, 40 * S);
        ASSERT_EQ(c.counts, 0); /* but nobody is to look at all hosts for it yet */
        steps(&c, 9, S);
        ASSERT_EQ(c.recovered, 1);
        line(&c, "evaluating on 4 batches"); /* known now */
        pass(&c, 55 * S);
        ASSERT_EQ(c.suspected, 1);
        pass(&c, 55 * S); /* and not for ever */
        ASSERT_EQ(c.suspected, 2);
        ASSERT_EQ(c.counts, 0);
        pass(&c, 60 * S);
        ASSERT_EQ(c.counts, 1);
        ASSERT_EQ(c.suspected, 2);
}

/* Every so many steps one takes longer, and nothing says why. */
static void by_place(void) {
        struct scene c;

        begin(&c);
        (void) step(&c, 0);
        steps(&c, 60, S);
        for (unsigned round = 0; round < 12; round++) {
                steps(&c, 9, S);
                c.cores = round == 0 ? 6 : 3; /* the first one is seen to work */
                steps(&c, 1, 50 * S);
                c.cores = 3;
                if (round == 0)
                        ASSERT_EQ(c.w.suspicions[SUSPICION_WORK], 1);
        }
        ASSERT_EQ(c.suspected, 2); /* the first two: from then on the place is known */
        steps(&c, 3, S);
        pass(&c, 15 * S); /* elsewhere it is what it was */
        ASSERT_EQ(c.suspected, 3);
}

/* Its log tells no steps. */
static void without_steps(void) {
        struct scene c;

        begin(&c);
        line(&c, "hello");
        for (unsigned i = 0; i < 30; i++) { /* it goes up and down, as programs do */
                c.cores = 2 + i % 3;
                c.net = 4e6 + 1e6 * (i % 4);
                pass(&c, 10 * S);
        }
        c.net = 0; /* one sign alone says nothing: */
        for (unsigned i = 0; i < 30; i++) {
                c.cores = 2 + i % 3;
                pass(&c, 10 * S);
        }
        c.net = 5e6;
        c.cores = 0;
        pass(&c, 300 * S);
        c.net = 0;
        c.cores = 0;
        for (unsigned i = 0; i < 15; i++) { /* nor do two, while the log goes on */
                line(&c, "still here");
                pass(&c, 20 * S);
        }
        ASSERT_EQ(c.suspected, 0);
}

static void without_steps_stalled(double cores) {
        struct scene c;

        begin(&c);
        for (unsigned i = 0; i < 30; i++) {
                c.cores = 2 + i % 3;
                pass(&c, 10 * S);
        }
        c.net = 0;
        c.cores = cores;
        pass(&c, 100 * S);
        ASSERT_EQ(c.suspected, 1);
        ASSERT_EQ(c.counts, 0); /* a little later */
        ASSERT_EQ(c.w.suspicion.last_step, SUSPICION_STEP_NONE);
        ASSERT_TRUE(strstr(c.w.suspicion.why, "its log tells no steps, and for 6"));
        pass(&c, 60 * S);
        ASSERT_EQ(c.counts, 1);
        c.net = 5e6;
        pass(&c, 20 * S);
        ASSERT_EQ(c.recovered, 1);
        ASSERT_FALSE(c.w.suspicion.suspected);
}

static void all_signs_agree(void) {
        without_steps_stalled(0);
        without_steps_stalled(1); /* one thread that spins */
}

/* Steps that take longer from now on are suspected a few times, not for ever. */
static void another_pace(void) {
        struct scene c;

        begin(&c);
        (void) step(&c, 0);
        steps(&c, 60, S);
        steps(&c, 60, 30 * S);
        ASSERT_TRUE(c.suspected <= 4);
        ASSERT_EQ(rhythm_median(&c.w.rhythm), 30 * S);
}

static void signs(void) {
        static const struct {
                const char *line;
                enum pause_sign sign;
                enum pause_kind kind;
        } lines[] = {
                { "Saved a checkpoint at step 40.", PAUSE_ENDS, PAUSE_CHECKPOINT },
                { "Started an asynchronous checkpoint save for step 40", PAUSE_SIGN_NONE, PAUSE_NONE },
                { "I0804 08:20:00.0 1 metric_logger.py:210] eval metrics after step: 100, eval_loss: 2.5",
                  PAUSE_ENDS,
                  PAUSE_EVALUATION },
                { "Completed eval step 3", PAUSE_GOES_ON, PAUSE_EVALUATION },
                { "Saving model checkpoint to out/checkpoint-500", PAUSE_BEGINS, PAUSE_CHECKPOINT },
                { "Evaluating:  10%|#         | 1/10", PAUSE_BEGINS, PAUSE_EVALUATION },
                { "the evaluated loss is low", PAUSE_SIGN_NONE, PAUSE_NONE },
                { "", PAUSE_SIGN_NONE, PAUSE_NONE },
        };

        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                enum pause_kind kind = PAUSE_NONE;

                ASSERT_EQ(pause_sign_of(lines[i].line, strlen(lines[i].line), &kind), lines[i].sign);
                ASSERT_EQ(kind, lines[i].kind);
        }
}

static void quantiles(void) {
        struct rhythm r = { .n = 0 };

        ASSERT_EQ(rhythm_median(&r), 0);
        for (usec_t i = 1; i <= 1000; i++) {
                rhythm_add(&r, (i * 7919) % 1000);
                for (uint32_t k = 1; k < r.n; k++)
                        ASSERT_TRUE(r.sorted[k - 1] <= r.sorted[k]);
        }
        ASSERT_EQ(r.n, RHYTHM_KEPT);
        rhythm_clear(&r);
        for (usec_t i = 100; i > 0; i--)
                rhythm_add(&r, i);
        ASSERT_EQ(rhythm_quantile(&r, 0), 1);
        ASSERT_EQ(rhythm_median(&r), 32);
        ASSERT_EQ(rhythm_quantile(&r, 100), 64);
}

TEST_MAIN(quantiles, signs, bounds, blind, why, early, several_processes, announced, announced_and_idle, by_place,
          another_pace, without_steps, all_signs_agree)
