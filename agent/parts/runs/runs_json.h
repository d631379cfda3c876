/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Apart from the parts that know it all, so that it is pure: the runs of this host as docs/api.md has
 * them in GET /v1/runs.
 */
#include <jansson.h>

#include "checkpoint.h"
#include "deaths.h"
#include "goodput.h"
#include "host_runs.h"
#include "steps.h"

/* What is known of a run beside what tpu-launchd says. */
struct run_seen {
        const struct step_line *step;   /* the last; NULL: none was read of it */
        const struct goodput *goodput;  /* where its time went; NULL: not known */
        const struct checkpoint *checkpoint; /* NULL: none was seen */
        int64_t steps_since;            /* made since the checkpoint; -1: not known */
        const char *suspicion;          /* why it may have stalled; NULL: it is not suspected */
        char killed_by[DEATH_TEXT_MAX]; /* what ended it; empty: nothing was seen, or it lives */
};
/* [{name, unit, state, …}]; null when the runs are not known. A new reference; NULL: out of memory. */
json_t *runs_to_json(const struct host_runs *l, struct run_seen (*lookup)(const char *run, void *userdata),
                     void *userdata);
