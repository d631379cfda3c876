/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Hosts whose process has left the run: who was first. Where their ends are further apart than their clocks
 * may be wrong by, time tells; the words of their ends do, whatever the clocks say (last_words.h); and so
 * does that one ended otherwise than all others, who ended alike.
 */
#include "evidence.h"
#include "weights.h"

struct departures {
        size_t n;           /* hosts that have left, also those that say neither when nor how */
        size_t n_said;      /* those that say when */
        uint32_t named;     /* host: the words name it, or that it ended otherwise; STACK_NONE */
        bool by_lost;       /* because the others lost their connections to it */
        usec_t first, next; /* of those that are no effect, if there are any; USEC_INFINITY: none */
        usec_t error, next_error; /* of their clocks */
};

/* Gathers them all. -ENOMEM. */
int departures_survey(const struct evidence *e, struct departures *ret);
/* What the end of a host that has left weighs. */
enum weight departures_weight(const struct evidence *e, const struct departures *all, uint32_t host);
