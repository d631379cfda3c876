/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The metrics of this room by id: names.def is the one list. Names, units and attributes are OpenTelemetry's
 * semantic conventions 1.44 where one exists (system.*, hw.*), else tpu.*; docs/metrics.md says what each is
 * and where it comes from.
 */
#include "probe.h"

enum metric_id {
#define METRIC(id, kind, name, unit, key0, key1, key2, description) METRIC_##id,
#define METRIC_5(id, kind, name, unit, key0, key1, key2, key3, key4, description) METRIC_##id,
#include "names.def"
#undef METRIC
#undef METRIC_5
        _METRIC_MAX,
};

struct metric_def {
        const char *name, *unit, *description;
        enum sample_kind kind;
        const char *keys[SAMPLE_KEYS_MAX];
};
const struct metric_def *metric_def(enum metric_id id);

/* Hands one number over; the values are those of the metric's keys, NULL where it has none. */
void put_int(struct sink *s, enum metric_id id, int64_t value, const char *v0, const char *v1,
             const char *v2);
void put_double(struct sink *s, enum metric_id id, double value, const char *v0, const char *v1,
                const char *v2);
