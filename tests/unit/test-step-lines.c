/* SPDX-License-Identifier: Apache-2.0 */
/* Step lines of other programs than MaxText, and by an expression; and lines that only look like them. */
#include "steps.h"
#include "test.h"

struct expected {
        const char *line;
        uint64_t step;
        double seconds, tflops, tokens;
};

static bool same(double a, double b) {
        return isnan(b) ? isnan(a) : fabs(a - b) < 1e-6 * MAX(1.0, fabs(b));
}

static void known_programs(void) {
        static const struct expected lines[] = {
                { " [2025-08-01 07:19:37] iteration        1/    5000 | consumed samples:          128 | "
                  "elapsed time per "
                  "iteration (ms): 19138.8 | throughput per GPU (TFLOP/s/GPU): 80.2 | learning rate: "
                  "6.976744E-08 | global batch "
                  "size:   128 | lm loss: 1.043863E+01 | loss scale: 1.0 | grad norm: 26.203 | number of "
                  "skipped iterations:   0 "
                  "| number of nan iterations:   0 |",
                  1, 19.1388, 80.2, NAN },
                { "[rank0]:2025-03-01 10:00:00,123 - root - INFO - step: 10  loss:  8.1372  grad_norm:  "
                  "1.2345  memory: "
                  "20.1GiB(25.40%)  tps: 2,345  tflops: 12.31  mfu: 3.95%",
                  10, NAN, 12.31, 2345 },
                { "iter 100: loss 3.1234, time 123.45ms, mfu 12.30%", 100, 0.12345, NAN, NAN },
                { "Epoch: [0][  10/5005]\tTime  0.370 (  1.200)\tData  0.000 (  0.700)\tLoss 6.9123e+00 "
                  "(6.95e+00)\tAcc@1   0.00",
                  10, 0.37, NAN, NAN },
                { "Step 1,250/10,000 | Loss: 2.5", 1250, NAN, NAN, NAN },
                { "global_step=77 loss=0.5", 77, NAN, NAN, NAN },
                { "completed step: 12, seconds: 0.693, TFLOP/s/device: 83.171, Tokens/s/device: 11819.175, "
                  "total_weights: 262144, "
                  "loss: 0.334",
                  12, 0.693, 83.171, 11819.175 },
        };

        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                struct step_line s;

                if (!step_of_line(NULL, lines[i].line, strlen(lines[i].line), &s))
                        test_fail(__FILE__, __LINE__, "no step line: %s", lines[i].line);
                ASSERT_EQ(s.step, lines[i].step);
                if (!same(s.seconds, lines[i].seconds) || !same(s.tflops, lines[i].tflops) ||
                    !same(s.tokens_per_second, lines[i].tokens))
                        test_fail(__FILE__, __LINE__, "%f %f %f of: %s", s.seconds, s.tflops,
                                  s.tokens_per_second, lines[i].line);
        }
}

static void no_steps(void) {
        static const char *const lines[] = {
                "",
                "loss",
                "step 3",
                "eval metrics after step: 100, eval_loss: 2.5",
                "validation loss at iteration 100 on validation set | lm loss value: 1.0",
                "Started an asynchronous checkpoint save for step 40, loss so far 3",
                "resumed at step 40 with loss 2.0",
                "stepping 5 loss 1",
                "step abc loss 1",
                "step 5.5 loss 1",
                "step 5% loss 1",
                "misstep 5, a loss",
                "step 99999999999999999999 loss 1",
                "test loss after step 5: 1.0",
        };
        struct step_line s;

        for (size_t i = 0; i < ELEMENTSOF(lines); i++)
                if (step_of_line(NULL, lines[i], strlen(lines[i]), &s))
                        test_fail(__FILE__, __LINE__, "a step line: %s", lines[i]);
}

static void expressions(void) {
        _cleanup_(step_expression_freep) struct step_expression *e = NULL;
        struct step_line s;
        char why[96] = "";

        ASSERT_OK(step_expression_new("^\\[trainer\\] batch #([0-9,]+) done", why, sizeof(why), &e));
        ASSERT_TRUE(step_of_line(e, "[trainer] batch #1,204 done in a while", 38, &s));
        ASSERT_EQ(s.step, 1204);
        ASSERT_TRUE(isnan(s.seconds));
        ASSERT_FALSE(step_of_line(e, "[trainer] batch # done", 22, &s));
        ASSERT_FALSE(step_of_line(e, "completed step: 12, seconds: 0.693", 34, &s)); /* it alone counts */
        ASSERT_FALSE(step_of_line(e, NULL, 0, &s));
}

/* Some kilobytes of memory for a few bytes of text, not all there is. */
static void large_expressions(void) {
        static const char *const good[] = { "[(+]+ ([0-9]{1,3}(,[0-9]{3}){0,3})+ of [^]+]+",
                                            "(\\(+){100}([0-9]+)",
                                            "a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+ ([0-9]+)" };
        char plus[STEP_EXPRESSION_MAX + 1] = "", why[96];
        static const char *const bad[] = { "((((a{100}){100}){100}){100})", "(((a{0,90}){90,}){9})",
                                           "((([[:digit:]+]{50}){50}){50})",
                                           "(([]+]{99}){99}){99}([0-9]+)" };
        struct step_expression *e = NULL;

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                ASSERT_OK(step_expression_new(good[i], why, sizeof(why), &e));
                e = step_expression_free(e);
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_EQ(step_expression_new(bad[i], why, sizeof(why), &e), -EINVAL);
        memset(plus, '(', 60);
        plus[60] = 'a';
        for (size_t i = 0; i < 60; i++)
                memcpy(plus + 61 + 2 * i, "+)", 2);
        ASSERT_EQ(step_expression_new(plus, why, sizeof(why), &e), -EINVAL);
}

static void bad_expressions(void) {
        static const char *const bad[] = { "step", "step ([0-9]+", "(a)\\1", "(x{1000})",
                                           "((((x{9}){9}){9}){9}){9}([0-9]+)" };
        char why[96], *long_one;
        struct step_expression *e = NULL;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                why[0] = '\0';
                ASSERT_EQ(step_expression_new(bad[i], why, sizeof(why), &e), -EINVAL);
                ASSERT_TRUE(why[0]);
        }
        long_one = calloc(1, STEP_EXPRESSION_MAX + 2);
        memset(long_one, 'x', STEP_EXPRESSION_MAX + 1);
        ASSERT_EQ(step_expression_new(long_one, why, sizeof(why), &e), -EINVAL);
        ASSERT_TRUE(!e);
        free(long_one);
}

TEST_MAIN(known_programs, no_steps, expressions, large_expressions, bad_expressions)
