/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What libtpu's runtime metrics service is asked and what it answers, as points. Pure. The answers come
 * from the process that is being watched, which may be broken or hostile: they are looked at before they
 * are unpacked, the memory for that is bounded, and a point that makes no sense is left out and counted.
 *
 * Attributes come in two encodings. Older: one attribute whose value is the number of the device. Newer:
 * one attribute whose value is a list of them, among which the device may be a number or a text of
 * digits.
 *
 * A distribution is a histogram as it is (its buckets include their lower bound and not their upper,
 * where ours do the opposite: the difference is what falls exactly on a bound). Summaries and the
 * deprecated regular buckets, which no metric that is taken has, are left out.
 */
#include "probe.h"
#include "unpack.h"

#define LIBTPU_MESSAGE_MAX (1024 * 1024)    /* of an answer */
#define LIBTPU_MEMORY_MAX (4 * 1024 * 1024) /* of an unpacked answer */
#define LIBTPU_REQUEST_MAX 128              /* of a request */
#define LIBTPU_POINTS_MAX 512               /* of one metric; beyond: left out and counted */
#define LIBTPU_BOUNDS_MAX 256               /* of one histogram; GKE's device plugin takes 200 */
#define LIBTPU_TEXT_MAX 64
#define LIBTPU_ATTRIBUTES_MAX 8

#define LIBTPU_SERVICE "/tpu.monitoring.runtime.RuntimeMetricService/"
#define LIBTPU_METHOD_METRIC LIBTPU_SERVICE "GetRuntimeMetric"
#define LIBTPU_METHOD_LIST LIBTPU_SERVICE "ListSupportedMetrics"
#define LIBTPU_METHOD_STATUS LIBTPU_SERVICE "GetTpuRuntimeStatus"

/* The metrics of libtpu by id, and what becomes of each: libtpu_names.def is the one list. */
#define LIBTPU_KEYS 2 /* attributes of a point beside whose it is */

enum libtpu_metric {
#define LIBTPU(...) LIBTPU_ROW(__VA_ARGS__)
#define LIBTPU_ROW(id, kind, name, factor, ours, unit, key0, our0, key1, our1, description) LIBTPU_##id,
#include "libtpu_names.def"
#undef LIBTPU
#undef LIBTPU_ROW
        _LIBTPU_METRIC_MAX,
};

struct libtpu_def {
        const char *name; /* as libtpu calls it */
        const char *ours, *unit, *description;
        enum sample_kind kind;
        double factor;                 /* from libtpu's unit to ours */
        const char *keys[LIBTPU_KEYS]; /* as libtpu calls them; "": the number of the device; NULL: none */
        const char *our_keys[LIBTPU_KEYS];
};
const struct libtpu_def *libtpu_def(enum libtpu_metric id);
/* _LIBTPU_METRIC_MAX: not one of those that are taken. */
enum libtpu_metric libtpu_find(const char *name);

struct libtpu_attribute {
        char key[LIBTPU_TEXT_MAX], value[LIBTPU_TEXT_MAX]; /* printable UTF-8, cut */
};

struct libtpu_point {
        struct sample sample; /* name, unit, description, kind and value; keys and values are not set */
        const char *values[LIBTPU_KEYS]; /* of libtpu_def()'s our_keys; "" when libtpu does not say */
        usec_t start_real;               /* since when it counts; 0: libtpu does not say */
        const struct libtpu_attribute *attributes; /* all that it came with, for people */
        size_t n_attributes;
};

/* Room to take answers apart in, used again for each. */
struct libtpu_reader {
        struct unpack_memory memory;
        struct libtpu_attribute attributes[LIBTPU_ATTRIBUTES_MAX];
        size_t n_attributes;
        double bounds[LIBTPU_BOUNDS_MAX];
        uint64_t counts[LIBTPU_BOUNDS_MAX + 1];
        struct sample_histogram histogram;
        uint64_t left_out; /* points, since it was made */
};
/* In place: it must not be moved afterwards. */
void libtpu_reader_init(struct libtpu_reader *r);
void libtpu_reader_clear(struct libtpu_reader *r);
#define _cleanup_libtpu_reader_ _cleanup_(libtpu_reader_clear)

/* Requests; each returns its length. process_only: without what libtpu knows of other processes. */
size_t libtpu_metric_request(enum libtpu_metric id, bool process_only,
                             uint8_t buf[static LIBTPU_REQUEST_MAX]);
size_t libtpu_list_request(uint8_t buf[static LIBTPU_REQUEST_MAX]);
size_t libtpu_status_request(uint8_t buf[static LIBTPU_REQUEST_MAX]);

/* Which of ours the process offers: answer of LIBTPU_METHOD_LIST. -EBADMSG: no such answer; -E2BIG: it takes
 * too much memory; -ENOMEM. */
int libtpu_list_read(struct libtpu_reader *r, const void *data, size_t len,
                     bool ret[static _LIBTPU_METRIC_MAX]);
/*
 * Answer of LIBTPU_METHOD_METRIC: take is called for each point, which is valid inside of it only. Returns
 * how many; errors as above, before any point. now_real: a start that lies after it is none.
 */
int libtpu_metric_read(struct libtpu_reader *r, enum libtpu_metric id, const void *data, size_t len,
                       usec_t now_real, void (*take)(const struct libtpu_point *p, void *userdata),
                       void *userdata);

/*
 * Looks at an answer and unpacks it: for the other readers of this room. What comes back is valid until the
 * next call. NULL: *ret_error says why, as libtpu_list_read().
 */
void *libtpu_unpack(struct libtpu_reader *r, const ProtobufCMessageDescriptor *d, const void *data,
                    size_t len, int *ret_error);
