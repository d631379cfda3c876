/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Training steps from log lines, without any change to the training code. The format is MaxText's
 *   "completed step: 12, seconds: 0.693, TFLOP/s/device: 83.171, Tokens/s/device: 11819.175,
 *    total_weights: 262144, loss: 0.334"
 * anywhere in the line (Ray puts a prefix before it and "[repeated 6x across cluster]" behind it). Other
 * programs print them in words of their own:
 *   Megatron-LM  " iteration       20/    5000 | consumed samples: … | elapsed time per iteration (ms):
 *                19138.8 | throughput per GPU (TFLOP/s/GPU): 80.2 | … | lm loss: 1.04E+01 |"
 *                (megatron/training/training.py, training_log())
 *   torchtitan   "step: 10  loss:  8.1372  grad_norm: …  memory: …  tps: 2,345  tflops: 12.31  mfu: 3.95%"
 *                (components/metrics.py)
 *   nanoGPT      "iter 100: loss 3.1234, time 123.45ms, mfu 12.30%" (train.py)
 *   examples     "Epoch: [0][  10/5005]  Time  0.370 ( 1.2)  …  Loss 6.9e+00 (…)"
 *                (pytorch/examples, imagenet)
 * In general it is the word step, iter or iteration with a number behind it, in a line that also has a loss.
 * Lines about evaluation, checkpoints and what was resumed have numbers of steps, too, and are none.
 *
 * The site or the run may give an expression instead: a POSIX extended one (regex(7)), whose first group is
 * the step's number. Then no other form of a step line counts. The C library's matcher can take long for
 * some expressions: lines are cut, references back are refused, and the caller measures and gives up (hostd
 * does).
 *
 * Pure; lines are hostile input.
 */
#include "base.h"

#define STEP_LINE_MAX 4096 /* bytes of a line that are looked at; MaxText's own are below 200 */
#define STEP_MAX UINT64_C(1000000000000) /* far above any run; anything larger is no step number */
#define STEP_SECONDS_MAX 604800.0        /* a week: anything longer is no step time */

struct step_line {
        uint64_t step;
        double seconds; /* NAN: another form of line than MaxText's does not always say */
        double tflops, tokens_per_second,
                loss; /* NAN when the line does not say, or says "nan", or no number */
};

/*
 * True when line (len bytes, need not end in NUL) reports a completed step. A step or a duration out of
 * range, negative or not finite refuses the line; an optional number that cannot be used does not: a
 * diverged loss ("nan") is still a step.
 */
bool step_line_parse(const char *line, size_t len, struct step_line *ret);

#define STEP_EXPRESSION_VARIABLE "TPU_RUN_STEP_EXPRESSION" /* of a run's environment: its own expression */
#define STEP_EXPRESSION_MAX 255u /* bytes of an expression */
#define STEP_EXPRESSION_LINE_MAX 512u /* bytes of a line that are looked at */
#define STEP_EXPRESSION_SIZE_MAX 10000u /* parts of one, with all copies that repeats make */
#define STEP_EXPRESSION_REPEAT_MAX 100u /* of {N,M}: each is a copy of what it repeats */

struct step_expression;
/* -EINVAL with why: what is wrong with it, and how it should be. -ENOMEM. */
int step_expression_new(const char *text, char *why, size_t why_size, struct step_expression **ret);
struct step_expression *step_expression_free(struct step_expression *e);
DEFINE_CLEANUP(struct step_expression *, step_expression_free)

/* A step line of any form: by the expression alone where there is one, else (NULL) by the forms above; what
 * the line does not say is NAN. */
bool step_of_line(const struct step_expression *e, const char *line, size_t len, struct step_line *ret);
