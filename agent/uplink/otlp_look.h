/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a record of the spool is, out of its bytes and without decoding it, and parts of one. Pure; believes
 * no length.
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
/*
 * For a receiver that finds it too large (413): part number part (from 0) of parts of an encoded
 * ExportMetricsServiceRequest: its metrics are shared out in order, so that part p of n is parts 2p and 2p+1
 * of 2n. *ret is malloc'ed. -ENODATA: it has fewer metrics than parts, or is not of the shape that we send
 * (one resource, one scope); -ENOMEM.
 */
int otlp_split_metrics(const void *data, size_t len, unsigned part, unsigned parts, uint8_t **ret,
                       size_t *ret_len);
