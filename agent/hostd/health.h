/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Health of a check over time: verdicts in, transitions out. Pure; time is an argument. A check fails after fail_after verdicts in a row that are not OK
 * and heals after heal_after OKs in a row and not before hold since it failed. The host's state follows from all its checks:
 *   unfit: a check FAILs · degraded: a check WARNs · unknown: nothing worse, but something could not be looked at · ready: all OK.
 */
#include "base.h"
#include "finding.h"

enum host_state { HOST_READY, HOST_DEGRADED, HOST_UNFIT, HOST_UNKNOWN, _HOST_STATE_MAX };
const char *host_state_name(enum host_state s); /* "ready", … */

struct health_policy {
        unsigned fail_after, heal_after;
        usec_t hold;
};

struct check_health {
        enum verdict settled; /* what counts */
        enum verdict seen;    /* the last verdict */
        unsigned streak;      /* how often seen came in a row */
        usec_t since;         /* boot clock: when settled last changed */
        bool started;         /* the first verdict settles at once */
};

/* Takes one verdict; true when settled changed. */
bool check_health_step(const struct health_policy *p, struct check_health *c, enum verdict v, usec_t now);

/* The host's state out of n checks. */
enum host_state host_state_of(const struct check_health *checks, size_t n);
