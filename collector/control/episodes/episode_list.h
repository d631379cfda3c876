/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The episodes that are kept in memory, the newest first, and how far each has come. What is stored stays in the store. */
#include "clock.h"

#include <jansson.h>

struct episode {
        struct episode *next;
        char id[64], run[64], slice[64]; /* slice: its first */
        int64_t generation;
        bool suspected, begun; /* begun: in the store */
        bool excused;          /* not confirmed for its progress */
        bool stalls;           /* a host says that nothing moves, not only that it is unusual */
        uint64_t hosts;        /* that were asked; 0: not known */
        uint64_t got[2], seen; /* captures of each round; seen: at the last look */
        unsigned rounds, looks;
        json_t *expected;     /* host -> true; NULL: whoever answers is one */
        json_t *pausing;      /* host -> true: its log had told of a pause; NULL: none */
        json_t *working;      /* likewise: its agent sees the run work there */
        usec_t due, made;     /* boot clock; due USEC_INFINITY: nothing is to be done */
        usec_t at, confirmed; /* real clock */
};

/* NULL: none of that name. */
struct episode *episode_find(struct episode *first, const char *id);

/*
 * A new one in front: nothing due, two rounds, generation -1. Beyond EPISODES_OPEN_MAX the oldest goes, but never `looking`
 * (may be NULL). The list owns it. NULL: out of memory.
 */
struct episode *episode_add(struct episode **first, const char *id, const struct episode *looking, usec_t now);

void episode_list_clear(struct episode **first);
