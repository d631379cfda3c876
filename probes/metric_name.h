/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What Prometheus calls a metric, by OpenTelemetry's mapping: dots become underscores, the unit becomes a
 * suffix ("By" → _bytes, "s" → _seconds, "{token}/s" → _per_second, "1" of a gauge → _ratio).
 * process.cpu.time and process.memory.usage have the names of Prometheus' client libraries instead.
 * A gauge's "_count", which the formats keep for histograms, becomes what is counted ("{cpu}" → _cpus).
 */
#include "probe.h"

#define METRIC_NAME_MAX 128

/* The family of a sample: without "_total". -ENAMETOOLONG. */
int metric_name(const struct sample *m, char buf[static METRIC_NAME_MAX]);
/* What neither is a letter nor a digit becomes "_", as in the keys of attributes. */
void metric_underscore(char *s);
