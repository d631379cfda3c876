/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The state of the part "pairs", and what its files do for each other. */
#include "pair_pull.h"
#include "pair_rounds.h"
#include "pairs_part.h"

#define PAIRS_AN_HOUR 6
#define PAIRS_STEP (100 * USEC_PER_MSEC)

/* What is sent to the partner. It is freed with its reply. */
struct serving {
        struct pairs_state *part; /* NULL: it was let go, and ends by itself */
        usec_t until;             /* boot clock */
        struct core_share core;
};

struct pairs_state {
        struct bus *bus;
        unsigned source, judged; /* of its finding */
        json_t *record;          /* pairs/SLICE; NULL: none came */
        sd_event_source *timer;
        uint64_t number;               /* of the request that is done, or at work; 0: none was */
        usec_t obeyed[PAIRS_AN_HOUR];  /* boot clock: the last requests, the oldest next */
        unsigned next_obeyed;
        bool at_work;
        usec_t began;
        unsigned hosts, worker, round, nics, nic, served; /* nics: of this round; served: to the partner */
        unsigned most; /* NICs of any host: all hosts give a round up at the same time */
        int partner;                                      /* -1: none in this round */
        struct pair_pull *pull;                           /* NULL: nothing is asked for */
        struct serving *serving;                          /* NULL: nothing is sent */
        json_t *received; /* NULL: none, or out of memory */
        unsigned core;    /* the largest share */
        char why[300];    /* what could not be measured; empty: all was */
};

/* --- pairs_round.c ------------------------------------------------------------------------------------- */

/* This host or its partner in the slice's record; NULL: it is not there. */
const json_t *pairs_host(const struct pairs_state *p, unsigned worker);
const char *pairs_address(const json_t *host, unsigned nic); /* "": it has none */
/* A request that was not seen yet is begun, or refused in the report. */
void pairs_begin(struct pairs_state *p);
/* In the loop, soon: what has changed is acted on. */
void pairs_step_soon(struct pairs_state *p);
int pairs_on_timer(sd_event_source *source, uint64_t usec, void *userdata);
/* All that goes on ends. */
void pairs_drop(struct pairs_state *p);
/* Something runs here; buf: what. */
bool pairs_are_disturbed(const struct pairs_state *p, char *buf, size_t size);
