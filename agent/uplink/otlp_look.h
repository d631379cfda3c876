/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a record of the spool is, out of its bytes and without decoding it. Pure; believes no length.
 */
#include "base.h"

/* The time of the first log record (events) or of the first point of an encoded export request; 0: none. */
usec_t otlp_first_log_time(const void *data, size_t len);
usec_t otlp_first_point_time(const void *data, size_t len);
/* How many points an encoded ExportMetricsServiceRequest holds, as far as it can be read. */
uint64_t otlp_count_points(const void *data, size_t len);
/* How many log records an encoded ExportLogsServiceRequest holds, likewise. */
uint64_t otlp_count_logs(const void *data, size_t len);
/* Whether the first log record of an encoded ExportLogsServiceRequest is an event of this name. */
bool otlp_first_event_is(const void *data, size_t len, const char *name);
