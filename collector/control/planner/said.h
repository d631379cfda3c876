/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The record member/ as a host says it, checked. Inside this room only. */
#include "pair_rounds.h"
#include "state.h"

#define MEMBER_RUNS_MAX    16
#define MEMBER_ADDRESS_MAX 8
#define MEMBER_PAIRS_MAX   (PAIR_ROUNDS_MAX * PAIR_NICS_MAX)

struct said { /* texts and values are the member's own */
        const char *slice, *host, *id, *machine, *incarnation, *state, *reasons, *orders, *notice;
        unsigned worker, hosts;
        bool proved, given; /* by a certificate; the slot by the site (registry.h: gives) */
        bool observe, runs_unknown; /* runs_unknown: it does not know (yet) what runs there */
        const json_t *address, *next; /* next: of the workers after it, names or addresses */
        const json_t *pairs; /* what it measured of its pairs last; NULL: nothing */
        struct gang_host_run *runs, *local; /* local: that the registry did not start */
        size_t n_runs, n_local;
};

/* -EBADMSG with why, -ENOMEM. */
int said_parse(const json_t *member, struct said *ret, char why[static GANG_WHY_MAX]);
void said_clear(struct said *s);
/* A part in a run. -EBADMSG with why, -ENOMEM. */
int host_run_parse(const json_t *v, struct gang_host_run *ret, char why[static GANG_WHY_MAX]);
struct gang_host_run *host_runs_free(struct gang_host_run *runs, size_t n);
