/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Why something asked for did not happen, for a person: what is wrong, what to do, and whether anybody
 * answered at all. */
#include "base.h"

struct problem {
        char text[320], remedy[256];
        bool elsewhere; /* telemetry is wanted, and goes to somebody else */
        bool no_answer; /* nobody answered: the program may be down */
        bool sent;      /* … and the request went out, at least in part: it may have been done */
        usec_t retry_after; /* it may be asked again then: refused for the moment alone; 0: not said */
};

/* Fills p; remedy may be NULL. Returns error. */
int problem_set(struct problem *p, int error, const char *remedy, const char *fmt, ...) _printf_(4, 5);

/* "tpuctl: TEXT" and "to do: REMEDY" on standard error, harmless for a terminal; returns the exit code that
 * fits. */
int problem_complain(const struct problem *p);
