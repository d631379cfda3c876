/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The latest samples as Prometheus' text format 0.0.4. Names follow OpenTelemetry's mapping: dots become
 * underscores, the unit becomes a suffix ("By" → _bytes, "s" → _seconds, "1" of a gauge → _ratio), counters
 * end in _total. Families are in one piece, sorted by name.
 */
#include "samples.h"

#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRIC_NAME_MAX 128

/* The exposed name of a sample. -ENAMETOOLONG. */
int metric_name(const struct sample *m, char buf[static METRIC_NAME_MAX]);
/* *ret is malloc'ed. */
int metrics_text(const struct sample_store *s, char **ret, size_t *ret_len);
