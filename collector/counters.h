/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the collector did since it started, and how /metrics says it: text format 0.0.4 or OpenMetrics 1.0.
 */
#include "base.h"

/* The statuses the receiver answers with; others count in the last. */
#define COUNTERS_STATUSES \
        { 200, 400, 403, 404, 405, 413, 415, 503, 0 }
#define COUNTERS_STATUSES_N 9

enum counters_path { COUNTERS_METRICS, COUNTERS_LOGS, COUNTERS_OTHER, _COUNTERS_PATH_MAX };

struct counters {
        uint64_t requests[_COUNTERS_PATH_MAX][COUNTERS_STATUSES_N];
        uint64_t points, events, rejected, commits, duplicates, bytes, started_over;
};

void counters_answered(struct counters *c, enum counters_path path, unsigned status);

struct counters_print {
        FILE *f;
        bool open_metrics;
};
void counters_print(const struct counters_print *p, const struct counters *c);
/* name without "tpu_collectord_" and "_total"; type "counter" or "gauge". */
void counters_print_one(const struct counters_print *p, const char *name, const char *type, const char *help,
                        double value);
struct counters_labelled {
        const char *label;
        double value;
};
void counters_print_labels(const struct counters_print *p, const char *name, const char *help,
                           const char *label, const struct counters_labelled *values, size_t n);
