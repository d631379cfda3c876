/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a caller is told when a request is refused or fails: becomes KIND_ERROR. */
#include "base.h"

struct problem {
        char text[384]; /* what is wrong, naming the input */
        char remedy[256]; /* what to do; may be empty */
};

/* Fills p and returns error (negative). */
int problem_set(struct problem *p, int error, const char *remedy, const char *fmt, ...) _printf_(4, 5);
