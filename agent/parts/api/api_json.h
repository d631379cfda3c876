/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The JSON of the API's own calls, as docs/api.md has it. Pure: every function returns a new reference, or
 * NULL when memory ran out. now and now_real are the same instant on both clocks, to date what is kept on
 * the boot clock.
 */
#include <jansson.h>

#include "bus.h"

/*
 * [{check, subject, verdict, reason, remedy, since, worsened, last_good, flapping}] of the checks that
 * count, and not as OK.
 */
json_t *api_json_reasons(const struct check_table *t, usec_t now, usec_t now_real);
/* {checks: [finding + {settled, silenced, since, worsened, last_good, flapping}]}. */
json_t *api_json_checks(const struct check_table *t, usec_t now, usec_t now_real);
/* What GET /v1/status says of the host itself; the parts add the rest. */
json_t *api_json_status(const struct bus *b, usec_t now, usec_t now_real);
