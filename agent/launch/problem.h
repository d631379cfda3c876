/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a caller gets when a request is refused or fails: becomes KIND_ERROR. */
#include <sys/types.h>

#include "base.h"

struct problem {
        char text[384]; /* what is wrong, naming the input */
        char remedy[256]; /* what to do; may be empty */
};

/* Fills p and returns error (negative). */
int problem_set(struct problem *p, int error, const char *remedy, const char *fmt, ...) _printf_(4, 5);
/* Puts the name of the run for each NAME, and the process for each PID (0: none is meant), so that it can be
 * typed. */
void remedy_fill(char *remedy, size_t size, const char *name, pid_t pid);
/* The same with the remedy of p; returns error. */
int problem_fill(struct problem *p, int error, const char *name, pid_t pid);
