/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The latest samples as text for a scraper. Names follow OpenTelemetry's mapping: dots become underscores,
 * the unit becomes a suffix ("By" → _bytes, "s" → _seconds, "{token}/s" → _per_second, "1" of a gauge →
 * _ratio), counters end in _total.
 * process.cpu.time and process.memory.usage have the names of Prometheus' client libraries instead.
 * A gauge's "_count", which the formats keep for histograms, becomes what is counted ("{cpu}" → _cpus).
 * Families are in one piece, sorted by name, after build and target, which say whose numbers these are.
 */
#include "exposition.h"
#include "samples.h"

#define METRIC_NAME_MAX 128
#define METRICS_LABELS_MAX 8

/* The family of a sample: without "_total". -ENAMETOOLONG. */
int metric_name(const struct sample *m, char buf[static METRIC_NAME_MAX]);

struct metrics_about {
        const char *version;
        /* whose numbers these are; value NULL: not known */
        struct exposition_label target[METRICS_LABELS_MAX];
};
/* *ret is malloc'ed. */
int metrics_text(const struct sample_store *s, const struct metrics_about *about, char **ret,
                 size_t *ret_len);
