/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Health of a check over time: verdicts in, transitions out. Pure; time is an argument. The first verdict
 * settles at once. From then on
 *   - it gets worse after fail_after verdicts in a row that are graver than what is settled;
 *   - it gets better after heal_after verdicts in a row that are milder, and not before hold since it last
 * changed. UNKNOWN is no proof of healing: it never takes a check out of WARN or FAIL, and breaks the row;
 *   - it settles at what the whole row supports: the mildest of a row that got worse, the gravest of one
 * that got better. Gravity is finding.h's: FAIL > WARN > UNKNOWN > OK. A check that flaps between OK and
 * FAIL therefore stays FAIL until it is quiet. The host's state follows from all its checks: unfit: a check
 * FAILs · degraded: a check WARNs · unknown: nothing worse, but something could not be looked at · ready:
 * all OK.
 */
#include "base.h"
#include "finding.h"

enum host_state { HOST_READY, HOST_DEGRADED, HOST_UNFIT, HOST_UNKNOWN, _HOST_STATE_MAX };
const char *host_state_name(enum host_state s); /* "ready", … */

struct health_policy {
        unsigned fail_after, heal_after; /* 0 counts as 1 */
        usec_t hold;
};

/* All zero: nothing known yet. */
struct check_health {
        enum verdict settled; /* what counts; valid when started */
        enum verdict seen;    /* the last verdict */
        enum verdict pending; /* what the running row would settle at; valid when streak > 0 */
        unsigned streak;      /* verdicts in a row on the same side (worse or better) of settled */
        usec_t since;         /* boot clock: when settled last changed */
        bool started;         /* the first verdict settles at once */
};

/* Takes one verdict; true when settled changed (also for the first one). */
bool check_health_step(const struct health_policy *p, struct check_health *c, enum verdict v, usec_t now);

/* The host's state out of n checks. A check that was never stepped, or no check at all, is unknown. */
enum host_state host_state_of(const struct check_health *checks, size_t n);
