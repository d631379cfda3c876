/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Series as a request of Prometheus remote write 1.0: protobuf inside of snappy, whose stream here has
 * literals alone. A series has the name and labels that a scrape of its host gives it, those of Prometheus
 * (the service, the host) and tpu_slice_name. What the agent counts is cumulative, and stays so. Of
 * histograms there are _count and _sum. Pure.
 */
#include "probe.h"
#include "store_handover.h"

#define AGENT_SERVICE "tpu-hostd"

/*
 * The store keeps no kinds: that of an agent's metrics is known by name. The metric of an agent's series;
 * *ret_part: "count" and "sum" of a histogram, else "". NULL: this program knows none of that name, or it is
 * of another sender, whose kinds nobody knows.
 */
const struct metric_def *remote_metric_of(const struct handed_series *one, const char **ret_part);

#define REMOTE_LABELS_MAX 64 /* of a series; one with more is not sent */

/* What says that a series has ended: a NaN with these bits (Prometheus, model/value). */
double remote_stale_marker(void);

/* Of OTLP, too (remote_otlp.h), whose points and records are samples here. */
struct remote_request {
        uint8_t *data; /* growing; protobuf until remote_request_end() */
        size_t len, size;
        size_t samples;
        /* Left out: samples of series that have no valid name, or too many labels; what no request holds;
         * counts without sums and sums without counts. */
        size_t unnamed, too_large, halves;
        char last[STORE_HOST_MAX]; /* whose target_info is in already */
};
void remote_request_clear(struct remote_request *q);
#define _cleanup_remote_request_ _cleanup_(remote_request_clear)

void remote_request_begin(struct remote_request *q);
/* -ENOMEM. */
int remote_request_add(struct remote_request *q, const struct handed_series *one);
/* Frames what is there. -ENOMEM. */
int remote_request_end(struct remote_request *q);
