/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The JSON of the query API, as docs/api.md has it, out of the agent's own structures. Pure: every function
 * returns a new reference, or NULL when memory ran out.
 */
#include <jansson.h>

#include "checks.h"
#include "host_runs.h"
#include "identity.h"
#include "json_text.h"
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
