/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Why something that was asked for did not happen, for a person: what is wrong, and what to do. What
 * tpu-launchd answers with (KIND_ERROR), and what tpuctl shows.
 */
#include <sys/types.h>

#include "base.h"

struct problem {
        char text[384]; /* what is wrong, naming the input */
        char remedy[256]; /* what to do; may be empty */
        /* Of a call of another program, filled in by who called: */
        bool no_answer; /* nobody answered: the program may be down */
        bool sent; /* the request went out, at least in part: it may have been done */
        bool elsewhere; /* telemetry is wanted, and goes to somebody else */
        usec_t retry_after; /* it may be asked again then: refused for the moment alone; 0: not said */
};

/* Fills text and remedy (NULL: none), nothing else. Returns error: -errno, or 0 where only the text is
 * wanted. */
int problem_set(struct problem *p, int error, const char *remedy, const char *fmt, ...) _printf_(4, 5);
/* Returns -ENOMEM. */
int problem_no_memory(struct problem *p);
/* Puts the name of the run for each NAME, and the process for each PID (0: none is meant), so that it can be
 * typed. */
void remedy_fill(char *remedy, size_t size, const char *name, pid_t pid);
/* The same with the remedy of p; returns error. */
int problem_fill(struct problem *p, int error, const char *name, pid_t pid);
