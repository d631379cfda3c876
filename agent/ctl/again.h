/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Asking again what was refused for a moment: who asks for stacks while somebody else's are being taken
 * waits, instead of being told to type it again. As long as the other side says (Retry-After), AGAIN_MAX
 * together; who waits longer than AGAIN_QUIET is told on standard error.
 */
#include "problem.h"

#define AGAIN_MAX   (10 * USEC_PER_SEC)
#define AGAIN_QUIET USEC_PER_SEC

struct again {
        usec_t waited;
        bool said;
};
#define AGAIN_NULL ((struct again){ 0 })

/* Sleeps if the problem is one that goes away by itself: true: ask again. False: it is not, or waiting for
 * it would be longer than AGAIN_MAX. program: "tpuctl stack". */
bool again_wait(struct again *a, const struct problem *p, const char *program);
