/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Keeps the database as old and as large as it may be (RetainDays=, RetainBytes=): a small piece of work
 * every RETAIN_TICK, so that all hosts had their turn within RETAIN_ROUND.
 */
#include "clock.h"
#include "damage.h"

#define RETAIN_ROUND  (300 * USEC_PER_SEC)
#define RETAIN_TICK   (100 * USEC_PER_MSEC) /* at least between two pieces */
#define RETAIN_PIECES 16                    /* in one turn of the loop, when there are many hosts */

struct retain;
/* d and clock are borrowed. */
int retain_new(const struct damage *d, const struct clock *clock, const struct store_retention *what,
               struct retain **ret);
struct retain *retain_free(struct retain *r);
DEFINE_CLEANUP(struct retain *, retain_free)
