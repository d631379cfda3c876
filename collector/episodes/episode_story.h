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
/* tpu.run.stall_confirmed, under the host that is named, with the sentence; in the journal, too. */
int episode_tell_confirmed(const struct episodes_options *o, const struct episode_about *x,
                           const struct verdict_text *v);
/* tpu.run.stall_unconfirmed: likewise; the host is not stuck, and will be looked at again. */
int episode_tell_unconfirmed(const struct episodes_options *o, const struct episode_about *x,
                             const struct verdict_text *v);
/* tpu.run.recovered */
int episode_tell_recovered(const struct episodes_options *o, const struct episode_about *x);
