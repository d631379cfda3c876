/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where a run over many hosts began to end, out of what its hosts reported. Pure.
 *
 * The principle: a run ends where the first thing went wrong by itself, and what follows there is an effect.
 * So a report weighs one of four:
 *   proven  the kernel, the hardware, the platform or a person did it: it needs no other host to be true
 *   own     it ended by itself, and why is not known: a code, a crash. Others' ends are a reason for it, too
 *   sign    a host reported trouble, and nobody said that the run ended by it
 *   effect  it lost its peers, was stopped, gave up waiting: another host is why
 * The earliest that is own or proven counts; a proven one goes before it when it is no more than
 * LAST_WORDS_LATE younger, for peers can notice a death before its own host has reported it. Without either,
 * the one to whom the lost connections lead; without that, the first sign; without that, who left with
 * success while others lost their peers.
 *
 * Where a connection was lost is what the run's own lines say (agent/launch/tail.h): who lost it is not why,
 * and who is at its other end may have lost one, too. What the connections of most lead to began it. This
 * needs no clock: it holds where all ended within what their clocks may be wrong by.
 *
 * The planner judges by collector/control/planner/tally.c instead, for it asks something else: whether the
 * run may start again.
 *   - It decides at the first failure that a host reports. A host's part in a run says no time of its end,
 *     and what began earlier may be heard later.
 *   - "Never again", and a program or a user that is missing, count whenever they were: there a restart is
 *     wrong. Here an older end goes before them.
 *   - It knows parts alone: no kernel, no notice, no log. Here all that a host reported counts, without any
 *     registry.
 */
#include "base.h"

#define LAST_WORDS_LATE (120 * USEC_PER_SEC)

enum word_weight { WORD_PROVEN, WORD_OWN, WORD_SIGN, WORD_EFFECT, WORD_SUCCESS };

struct last_word {
        enum word_weight weight;
        usec_t time; /* by the clock of its host */
        size_t lost; /* an effect: the place + 1 of whom it lost; 0: its lines name nobody */
};

/* Of the cause that tpu-launchd found (docs/api.md, runs); one that a later agent invents is its own. */
enum word_weight last_words_weight(const char *cause);

/* Which of n is where it began; -1: none of them says. A tie is the first of the list's. */
ssize_t last_words_first(const struct last_word *words, size_t n);

/* Whom the words alone name, whatever the clocks say: who alone is proven, else who alone is no effect of
 * another's end; where all are effects, to whom the lost connections lead. -1: nobody. */
ssize_t last_words_clockless(const struct last_word *words, size_t n);
/* The part of that which follows the lost connections. */
ssize_t last_words_lost(const struct last_word *words, size_t n);
