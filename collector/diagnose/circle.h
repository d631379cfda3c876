/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Ranks of which each waits for the next one alone: who of them is behind. It is one function, for it is a
 * rule of its own, and graph.c is long enough without it. Only what passed on the circle's own connections
 * counts, and no other debt: a keeper that serves one rank after the other has unread data
 * of those whose turn has not come.
 *
 * Behind is, of those who wait for the same rank, the one that gave it less than any other did, and before
 * all of them (where that rank owes it, only one that stands elsewhere than its like: else its turn has not
 * come). Else it is the one that received and has not sent since; else the one whose last step is behind, or
 * that alone has a place of its own.
 */
#include "owed.h"

enum circle_by {
        CIRCLE_NOBODY, /* nothing tells who is behind */
        CIRCLE_LATE,   /* it gave less than its like, and earlier */
        CIRCLE_OWES,   /* it received, and has not sent since */
        CIRCLE_STEP,
        CIRCLE_PLACE,
};
/* next: of each node the one for which it waits alone; STACK_NONE. first: one of the circle. Returns an enum
 * circle_by; ret: who, untouched where nobody is. -ENOMEM. */
int circle_behind(const struct evidence *e, const struct debts *d, const uint32_t *next, uint32_t first,
                  uint32_t *ret);
