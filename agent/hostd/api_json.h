/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The JSON of the query API, as docs/api.md has it, out of the agent's own structures. Pure: every function
 * returns a new reference, or NULL when memory ran out.
 */
#include <jansson.h>

#include "checks.h"
#include "deaths.h"
#include "identity.h"
#include "launchd_runs.h"
#include "json_text.h"
#include "run_log.h"
#include "uplink.h"

/* [{check, subject, verdict, reason, remedy, since, worsened, last_good, flapping}] of the checks that count, and not as OK. */
json_t *api_json_reasons(const struct check_table *t, usec_t now, usec_t now_real);
/* {checks: [finding + {settled, silenced, since, worsened, last_good, flapping}]}. now/now_real: the same instant on both clocks, to date what is
 * kept on the boot clock. */
json_t *api_json_checks(const struct check_table *t, usec_t now, usec_t now_real);

json_t *api_json_uplink(const struct uplink_stats *s, const char *endpoint, usec_t now, usec_t now_real);

struct api_status {
        const char *host, *boot_id;
        usec_t started_real, now, now_real;
        const struct check_table *checks;
        const struct identity *identity;
        const struct host_runs *runs;
        const struct uplink_stats *uplink;
        const char *endpoint;
};
json_t *api_json_status(const struct api_status *s);

/* What is known of a run beside what tpu-launchd says. */
struct run_seen {
        const struct run_progress *log; /* NULL: nothing was read of it */
        double goodput;                 /* NAN: not known */
        const char *suspicion;          /* why it may have stalled; NULL: it is not suspected */
        char killed_by[DEATH_TEXT_MAX]; /* what ended it; empty: nothing was seen, or it lives */
};
/* [{name, unit, state, …}]; null when launchd's runs are not known. */
json_t *api_json_runs(const struct host_runs *l, struct run_seen (*lookup)(const char *run, void *userdata),
                      void *userdata);
