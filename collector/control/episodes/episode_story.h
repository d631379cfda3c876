/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The events of an episode, inside a transaction. Inside this room only. -ENOMEM, the store's. */
#include "episodes.h"
#include "verdict.h"

struct episode_about {
        const char *id, *run, *slice;
        int64_t generation;
        usec_t at;
};
/* Under the host that is named, and a line in the journal. Not confirmed: it is not stuck, and is looked at
 * again. */
int episode_tell_verdict(const struct episodes_options *o, const struct episode_about *x,
                         const struct verdict_text *v, bool confirmed);
/* tpu.run.recovered */
int episode_tell_recovered(const struct episodes_options *o, const struct episode_about *x);
