/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the hosts of a run say of its generation, counted. Inside this room only. */
#include "state.h"

struct tally {
        unsigned hosts, there, lost, leaving, prepared, refused, alive /* starting or running */, success,
                failed, silent, presumed, suspecting, over /* missing, but its end was heard before */;
        usec_t lost_since; /* the first that was lost */
        const struct slot *first_lost, *first_silent, *first_alive, *first_success;
        /* Who is to blame: it ended by itself without success, or says that it was stopped there. */
        const struct slot *bad, *stopped;
        const struct gang_host_run *bad_run;
        const struct slot *suspects; /* the first that suspected a stall, and its words */
        const struct gang_host_run *suspicion;
        const char *obstacle; /* of one of its slices */
        int64_t step;         /* -1: not known */
        usec_t step_time;     /* the longest that is known; 0: none */
};

/* Somebody ended with success while the others still trained: all that failed lost their peers, and they are
 * more. */
bool tally_left_early(const struct tally *t);
void tally_count(const struct gang *g, const struct gang_run *r, struct tally *ret);
/* Of the hosts that have it now the n-th, in a circle; of those that report steps, if any does. NULL:
 * nobody.
 */
const struct slot *tally_pick(const struct gang *g, const struct gang_run *r, unsigned n);
/* What a host says of the run is its last word: it was started once there, and has ended. h: may be NULL. */
bool host_run_is_over(const struct gang_run *r, const struct gang_host_run *h);
/* Whether a run that ended or was refused so must not be started again. What could not be started there, for
 * want of its user or its program, is final for a run that has never run; later a file system may be away.
 */
bool tally_is_final(const struct gang_run *r, const struct gang_host_run *h);
