/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the collector did since it started; /metrics publishes it. A header alone, for those who count (the
 * receiver, its answers, damage) and the API that shows it know nothing else of each other.
 */
#include <assert.h>

#include "base.h"

/* The statuses the receiver answers with; others count in the last. */
#define COUNTERS_STATUSES \
        { 200, 400, 403, 404, 405, 413, 415, 503, 0 }
#define COUNTERS_STATUSES_N 9

enum counters_path { COUNTERS_METRICS, COUNTERS_LOGS, COUNTERS_OTHER, _COUNTERS_PATH_MAX };

struct counters {
        uint64_t requests[_COUNTERS_PATH_MAX][COUNTERS_STATUSES_N];
        uint64_t points, events, lines, captures, rejected, commits, duplicates, bytes, started_over,
                not_proved; /* calls for another host than the certificate's */
};

static inline void counters_answered(struct counters *c, enum counters_path path, unsigned status) {
        static const unsigned statuses[COUNTERS_STATUSES_N] = COUNTERS_STATUSES;
        size_t i = 0;

        assert(path < _COUNTERS_PATH_MAX);
        while (i < COUNTERS_STATUSES_N - 1 && statuses[i] != status)
                i++;
        c->requests[path][i]++;
}
