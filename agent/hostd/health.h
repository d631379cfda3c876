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
 * FAIL therefore stays FAIL until it is quiet;
 *   - once it got worse flap_after times within flap_window it flaps: from then on it gets better only after
 * flap_quiet without one verdict that is not milder, and flaps no more when it did.
 * So between a change and a later one for the better there is always hold, and within flap_window there are
 * never more than flap_after changes for the worse after which it got better sooner than flap_quiet.
 *
 * The host's state follows from all its checks that are not silenced, nor extra and UNKNOWN: unfit: a check
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
        unsigned flap_after; /* 0: nothing ever flaps; at most HEALTH_FLAPS_MAX */
        usec_t flap_window, flap_quiet;
};

#define HEALTH_FLAPS_MAX 16

/* All zero: nothing known yet. */
struct check_health {
        enum verdict settled; /* what counts; valid when started */
        enum verdict seen;    /* the last verdict */
        enum verdict pending; /* what the running row would settle at; valid when streak > 0 */
        unsigned streak;      /* verdicts in a row on the same side (worse or better) of settled */
        usec_t since;         /* boot clock: when settled last changed */
        bool started;         /* the first verdict settles at once */
        bool flapping;        /* it gets better only after flap_quiet */
        bool silenced;        /* by a person: it does not count for the host's state */
        bool extra;           /* of what a host may lack: it does not count as long as it is UNKNOWN */
        usec_t row_since;     /* boot clock: when the running row began */
        usec_t last_good;     /* boot clock: when OK was last seen; 0: never */
        uint64_t worsened;    /* how often it settled graver than before; a first verdict counts unless OK */
        usec_t worse_at[HEALTH_FLAPS_MAX]; /* boot clock: the last of these, number i at i % HEALTH_FLAPS_MAX
                                            */
};

/* Takes one verdict; true when settled changed (also for the first one). */
bool check_health_step(const struct health_policy *p, struct check_health *c, enum verdict v, usec_t now);

/* Whether a row is running that makes it worse, and is too short yet. */
bool check_health_worsens(const struct check_health *c);

/* Whether it counts for the host's state. */
bool check_health_counts(const struct check_health *c);

/* The host's state out of n checks. A check that was never stepped, or no check at all, is unknown. */
enum host_state host_state_of(const struct check_health *checks, size_t n);
