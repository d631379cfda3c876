/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A metrics request in parts, for a receiver that finds it too large (413). Pure. */
#include "base.h"

/*
 * Part number part (from 0) of parts of an encoded ExportMetricsServiceRequest: its metrics are shared out in
 * order, so that part p of n is parts 2p and 2p+1 of 2n. *ret is malloc'ed. -ENODATA: it has fewer
 * metrics than parts, or is not of the shape that we send (one resource, one scope); -ENOMEM.
 */
int otlp_split_metrics(const void *data, size_t len, unsigned part, unsigned parts, uint8_t **ret,
                       size_t *ret_len);
