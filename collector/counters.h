/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the collector did since it started, for /metrics.
 */
#include "base.h"

/* The statuses the receiver answers with; others count in the last. */
#define COUNTERS_STATUSES \
        { 200, 400, 404, 405, 413, 415, 503, 0 }
#define COUNTERS_STATUSES_N 8

enum counters_path { COUNTERS_METRICS, COUNTERS_LOGS, COUNTERS_OTHER, _COUNTERS_PATH_MAX };

struct counters {
        uint64_t requests[_COUNTERS_PATH_MAX][COUNTERS_STATUSES_N];
        uint64_t points, events, rejected, commits, duplicates, bytes, started_over;
};

void counters_answered(struct counters *c, enum counters_path path, unsigned status);
/* Text format 0.0.4. *ret is malloc'ed. */
int counters_text(const struct counters *c, char **ret, size_t *ret_len);
