/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How much each piece of evidence weighs, and where that number is from: all numbers of the judgement are in
 * one table (weights.c). A weight is the probability that the evidence is right about the host, as measured;
 * independent ones add up as 1 - Π(1 - weight).
 */
#include "place.h"

enum weight {
        /* Edges: a rank waits for another one */
        WEIGHT_BLOCKED,   /* its thread waits for data or room of that one's connection alone */
        WEIGHT_POLLS,     /* of several connections */
        WEIGHT_LIKE_MOST, /* nothing says for whom; most ranks wait so */
        WEIGHT_UNREAD,    /* what it sent lies unread there */
        WEIGHT_UNSENT,    /* what it sends is not taken there */
        WEIGHT_OWED,      /* on their connection that one received after it last sent */
        /* Ends: a rank waits for nobody of the run */
        WEIGHT_OWES,    /* of all ranks it alone received last and sent before that */
        WEIGHT_CYCLE,   /* two locks of one host, each waiting for the other */
        WEIGHT_OUTSIDE, /* it waits for a machine that is no host of the run */
        WEIGHT_SPINS,   /* it runs at the place where most run, in both captures */
        WEIGHT_LOOKS,   /* it runs or sleeps, others owe it, and it owes nobody */
        WEIGHT_NEAR,    /* it stands in another line than most of the same function */
        WEIGHT_SIDE,    /* another thread of a rank that stands as most do waits for such an end */
        WEIGHT_SINK,    /* nothing is known of it but that the others' waits lead there */
        WEIGHT_MEMBER,  /* likewise, of each in a circle of ranks that wait for each other */
        /* Hosts */
        WEIGHT_SILENT,
        WEIGHT_SILENT_EXPLAINED, /* another host is seen to be at fault */
        WEIGHT_LEFT_ALONE,
        WEIGHT_LEFT_FIRST,
        WEIGHT_LEFT_CLOSE,
        WEIGHT_LEFT_ODD,
        WEIGHT_LEFT_LATER,
        WEIGHT_LEFT_SOME,
        WEIGHT_CORE_ERROR,
        WEIGHT_CORE_PROGRAM,
        WEIGHT_CORE_BEHIND,
        WEIGHT_CORE_COUNTER,
        WEIGHT_CORE_INPUT,
        WEIGHT_STEP,
        WEIGHT_STEP_EXPLAINED,
        WEIGHT_PATH_NOTHING,
        WEIGHT_PATH_LIKELY,
        WEIGHT_PATH_CLEAR,
        WEIGHT_PATH_PAIR,
        WEIGHT_PATH_EXPLAINED,
        WEIGHT_CHECK_PATH,
        WEIGHT_CHECK,
        _WEIGHT_MAX,
};
double weight_of(enum weight w);
const char *weight_measurement(enum weight w);

/* That what a rank itself waits for, of a kind, is why the others wait. stuck: both captures show it at one
 * place; moved: at two. */
double weight_of_end(uint8_t kind, bool stuck, bool moved);
