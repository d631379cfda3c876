/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The latest value of each series (name and attribute values), for /metrics and for the next push. Bounded;
 * allocates once, and for a series when it comes and, of a histogram, when it gets more buckets. Names,
 * units, descriptions and keys of a sample are static texts; attribute values are copied (cut at
 * SAMPLE_TEXT_MAX - 1).
 */
#include "base.h"
#include "probe.h"

#define SAMPLES_MAX 1024
#define SAMPLE_TEXT_MAX 64
#define SAMPLE_BUCKETS_MAX 512                /* of one histogram */
#define SAMPLE_HISTOGRAM_BYTES (1024 * 1024)  /* of all histograms that are kept */

struct sample_slot {
        struct sample sample; /* values point into texts, a histogram into kept */
        char *texts; /* one behind the other; NULL: no values */
        struct sample_kept *kept; /* NULL: the series never was a histogram */
        usec_t time_real, start_real; /* start_real: since when a counter counts */
        usec_t restarted_real;        /* the last value before the counter stepped back; 0: it never did */
        uint32_t hash;
        unsigned source, run;
        bool fresh; /* taken since the last push */
};

struct sample_store {
        struct sample_slot *slots;
        size_t n;
        size_t next;      /* where the series that usually follows the last one is */
        size_t histogram_bytes;
        uint64_t refused; /* samples that found no room, or were not finite */
};
#define SAMPLE_STORE_NULL ((struct sample_store) { 0 })

int sample_store_init(struct sample_store *s);
void sample_store_clear(struct sample_store *s);
/* Where and when a sample was taken. */
struct sample_origin {
        unsigned source, run;
        usec_t now_real, start_real;
};
/*
 * Takes one sample. A counter below its last value, or a histogram below its last count, has started anew (a
 * NIC was reset, a control group made again): it counts from the time of that last value. -ENOSPC, -ENOMEM,
 * -EINVAL (no finite number, more than SAMPLE_BUCKETS_MAX buckets): counted.
 */
int sample_store_take(struct sample_store *s, const struct sample_origin *o, const struct sample *m);
/* Forgets what source did not report in this run. */
void sample_store_end_run(struct sample_store *s, unsigned source, unsigned run);
