/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Step lines of programs that print them in words of their own. Pure; lines are hostile input.
 *   Megatron-LM  " iteration       20/    5000 | consumed samples: … | elapsed time per iteration (ms): 19138.8 | throughput per GPU
 *                (TFLOP/s/GPU): 80.2 | … | lm loss: 1.04E+01 |" (megatron/training/training.py, training_log())
 *   torchtitan   "step: 10  loss:  8.1372  grad_norm: …  memory: …  tps: 2,345  tflops: 12.31  mfu: 3.95%" (components/metrics.py)
 *   nanoGPT      "iter 100: loss 3.1234, time 123.45ms, mfu 12.30%" (train.py)
 *   examples     "Epoch: [0][  10/5005]  Time  0.370 ( 1.2)  …  Loss 6.9e+00 (…)" (pytorch/examples, imagenet)
 * and in general: the word step, iter or iteration with a number behind it, in a line that also tells a loss. Lines about
 * evaluation, checkpoints and what was resumed have numbers of steps, too, and are none.
 */
#include "steps.h"

/* As step_line_parse(); seconds is NAN when the line does not say how long the step took. */
bool torch_line_parse(const char *line, size_t len, struct step_line *ret);
