/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the collector did since it started, and how /metrics says it.
 */
#include "exposition.h"

/* The statuses the receiver answers with; others count in the last. */
#define COUNTERS_STATUSES \
        { 200, 400, 403, 404, 405, 413, 415, 503, 0 }
#define COUNTERS_STATUSES_N 9

enum counters_path { COUNTERS_METRICS, COUNTERS_LOGS, COUNTERS_OTHER, _COUNTERS_PATH_MAX };

struct counters {
        uint64_t requests[_COUNTERS_PATH_MAX][COUNTERS_STATUSES_N];
        uint64_t points, events, lines, captures, rejected, commits, duplicates, bytes, started_over;
};

void counters_answered(struct counters *c, enum counters_path path, unsigned status);

/* The families of these, all "tpu_collectord_…". */
void counters_print(struct exposition *e, const struct counters *c);
