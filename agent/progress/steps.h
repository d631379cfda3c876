/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Training steps from log lines, without any change to the training code. The format is MaxText's
 *   "completed step: 12, seconds: 0.693, TFLOP/s/device: 83.171, Tokens/s/device: 11819.175, total_weights:
 * 262144, loss: 0.334" anywhere in the line (Ray puts a prefix before it and "[repeated 6x across cluster]"
 * behind it). Pure; lines are hostile input.
 */
#include "base.h"

#define STEP_LINE_MAX 4096 /* bytes of a line that are looked at; MaxText's own are below 200 */
#define STEP_MAX UINT64_C(1000000000000) /* far above any run; anything larger is no step number */
#define STEP_SECONDS_MAX 604800.0        /* a week: anything longer is no step time */

struct step_line {
        uint64_t step;
        double seconds; /* NAN: another form of line (steps_torch.h, step_expression.h) does not say */
        double tflops, tokens_per_second,
                loss; /* NAN when the line does not say, or says "nan", or no number */
};

/*
 * True when line (len bytes, need not end in NUL) reports a completed step. A step or a duration out of
 * range, negative or not finite refuses the line; an optional number that cannot be used does not: a
 * diverged loss ("nan") is still a step.
 */
bool step_line_parse(const char *line, size_t len, struct step_line *ret);

/*
 * True when line says that a checkpoint is whole: MaxText's "saved a checkpoint at step 40", Orbax' "Finished saving
 * checkpoint (finalized tmp dir) to `…/40`". That one was begun is none. *ret_step: -1 when the line does not say.
 */
bool checkpoint_line_parse(const char *line, size_t len, int64_t *ret_step);

/* What is known of one run's progress. */
struct progress {
        uint64_t lines;     /* step lines seen */
        uint64_t last_step; /* valid when lines > 0 */
        usec_t last_at;     /* boot clock of the last step line */
        struct step_line last;
};
/* Takes one more step line seen at now. A step number going back (restart from a checkpoint) is taken as it
 * is. */
void progress_step(struct progress *p, const struct step_line *s, usec_t now);
