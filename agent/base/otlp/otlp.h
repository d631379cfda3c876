/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Builds OTLP requests (protobuf) out of samples, events and lines, of one resource each: requests put
 * behind each other are one request, of all their resources (protobuf, merging). A builder is made once and
 * used again; between two requests it keeps what all of them begin with, and the last one until
 * otlp_drop_output(). Texts are copied when they are added; bytes that are no UTF-8 become '?', because a
 * strict receiver would refuse the whole request for one of them.
 */
#include "base.h"
#include "events.h"

#define OTLP_REQUEST_MAX (1024 * 1024)
#define OTLP_ATTRIBUTES_MAX 12
#define OTLP_METRICS_MAX 1024 /* different names in one request */

struct otlp_attribute {
        const char *key;
        const char *text; /* NULL: number is meant */
        int64_t number;
};

/* counts[i] values were at most bounds[i], and above the bound before it; the last: above all bounds. */
struct otlp_histogram {
        uint64_t count;
        double sum, min, max; /* NAN: not known */
        const double *bounds;
        const uint64_t *counts; /* n_bounds + 1 */
        size_t n_bounds;
};

struct otlp_point {
        const char *name, *unit, *description; /* unit and description may be NULL */
        bool counter; /* cumulative monotonic sum since start_real; else a gauge */
        const struct otlp_histogram *histogram; /* cumulative since start_real; NULL: a number is meant */
        bool is_int;
        union {
                double d;
                int64_t i;
        };
        usec_t time_real, start_real;
        const struct otlp_attribute *attributes;
        size_t n_attributes;
        json_t *labels; /* an object, which stands for attributes; NULL: none. Borrowed */
};

/* A log record. */
struct otlp_event {
        /* "tpu.nic.mtu_drift"; of a line that another program wrote: what kind of line it is */
        const char *name;
        enum severity severity;
        usec_t time_real;
        const char *text; /* the body is this text; NULL: it is a key-value list */
        const struct otlp_attribute *body;
        size_t n_body;
        const struct otlp_attribute *attributes;
        size_t n_attributes;
        /* Of one that came as JSON: any value stands for the body, an object for the attributes. NULL: none.
         * Borrowed */
        json_t *json_body, *json_attributes;
};

struct otlp;
/* resource attributes are copied; scope_version: of tpu-hostd, "" when it is not known; NULL: what comes is
 * not from it. */
int otlp_new(const struct otlp_attribute *resource, size_t n, const char *scope_version, struct otlp **ret);
struct otlp *otlp_free(struct otlp *o);
DEFINE_CLEANUP(struct otlp *, otlp_free)

/*
 * Adds a point to the metric of its name; unit, description and kind are those of the name's first point.
 * -E2BIG when the request would exceed OTLP_REQUEST_MAX or OTLP_METRICS_MAX: encode and start again.
 * -EINVAL: more than OTLP_ATTRIBUTES_MAX attributes, or the name is there with another kind.
 */
int otlp_add_point(struct otlp *o, const struct otlp_point *p);
/*
 * Encodes all points added since the last encode into an ExportMetricsServiceRequest, and starts again;
 * *ret points into o, valid until the next call of an encode. 0 points: -ENODATA.
 */
int otlp_encode_metrics(struct otlp *o, const void **ret, size_t *ret_len);
/* What an encode gave is not needed any more. */
void otlp_drop_output(struct otlp *o);
/*
 * Adds a line, or an event, to those of the next otlp_encode_lines(), in order; points are not touched.
 * -E2BIG when the request would exceed max bytes (at most OTLP_REQUEST_MAX): encode and start again.
 */
int otlp_add_line(struct otlp *o, const struct otlp_event *l, size_t max);
/* All lines since the last encode as an ExportLogsServiceRequest, as otlp_encode_metrics(). 0 lines:
 * -ENODATA. */
int otlp_encode_lines(struct otlp *o, const void **ret, size_t *ret_len);
/* Forgets the lines that were added. */
void otlp_drop_lines(struct otlp *o);
/*
 * One event as a whole ExportLogsServiceRequest; waiting points are not touched. -E2BIG: longer than
 * OTLP_REQUEST_MAX. -EINVAL: attributes.
 */
int otlp_encode_event(struct otlp *o, const struct otlp_event *e, const void **ret, size_t *ret_len);
