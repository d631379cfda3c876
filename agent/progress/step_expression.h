/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Step lines by an expression of the site or of the run: a POSIX extended one (regex(7)), whose first group is the step's
 * number. Where one is given, no other form of a step line counts. The C library's matcher can take long for some
 * expressions: lines are cut, references back are refused, and who calls measures and gives up (hostd does).
 */
#include "steps.h"

#define STEP_EXPRESSION_VARIABLE "TPU_RUN_STEP_EXPRESSION" /* of a run's environment: its own expression */
#define STEP_EXPRESSION_MAX 255u /* bytes of an expression */
#define STEP_EXPRESSION_LINE_MAX 512u /* bytes of a line that are looked at */
#define STEP_EXPRESSION_REPEAT_MAX 100u /* of {N,M}: each is a copy of what it repeats */

struct step_expression;
/* -EINVAL with why: what is wrong with it, and how it should be. -ENOMEM. */
int step_expression_new(const char *text, char *why, size_t why_size, struct step_expression **ret);
struct step_expression *step_expression_free(struct step_expression *e);
DEFINE_CLEANUP(struct step_expression *, step_expression_free)

/* A step line of any form: by the expression alone where there is one, else (NULL) by steps.h and steps_torch.h. */
bool step_of_line(const struct step_expression *e, const char *line, size_t len, struct step_line *ret);
