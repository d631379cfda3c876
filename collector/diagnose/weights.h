/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How much each piece of evidence weighs, and where that number is from: all numbers of the judgement are in
 * one table (weights.def). A weight is the probability that the evidence is right about the host, as
 * measured; independent ones add up as 1 - Π(1 - weight).
 */
#include "place.h"

enum weight {
#define WEIGHT(name, weight, from) WEIGHT_##name,
#include "weights.def"
#undef WEIGHT
        _WEIGHT_MAX,
};
double weight_of(enum weight w);
const char *weight_measurement(enum weight w);

/* That what a rank itself waits for, of a kind, is why the others wait. stuck: both captures show it at one
 * place. */
double weight_of_end(uint8_t kind, bool stuck);
