/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Metrics as text for a scraper: Prometheus' text format 0.0.4 (prometheus.io/docs/instrumenting,
 * "Exposition formats"). The writer of one answer of /metrics. Who uses it brings each family once, its
 * samples right behind it; names are checked by tests, not here.
 */
#include "base.h"

#define EXPOSITION_VALUE_MAX 512 /* of a label, with the end */

enum exposition_kind {
        EXPOSITION_GAUGE,
        EXPOSITION_COUNTER, /* family and samples get "_total" */
        EXPOSITION_HISTOGRAM, /* written by exposition_histogram() alone */
        EXPOSITION_INFO,    /* texts as labels of a gauge of 1; "_info" is added likewise */
};

struct exposition_family {
        const char *name; /* ends with "_" and the unit, where there is one; without "_total" and "_info" */
        const char *help;
        enum exposition_kind kind;
};

struct exposition_label {
        const char *key, *value; /* key: a name; value: any text; made valid UTF-8 and cut */
};

struct exposition {
        FILE *f;
        char *text;
        size_t len;
        struct exposition_family family; /* the one whose samples come now */
};

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8" /* of the header Content-Type */

int exposition_begin(struct exposition *e);
/* f: its texts are borrowed until the next family. */
void exposition_family(struct exposition *e, const struct exposition_family *f);
void exposition_int(struct exposition *e, const struct exposition_label *labels, size_t n, int64_t value);
void exposition_real(struct exposition *e, const struct exposition_label *labels, size_t n, double value);
/* counts[i] values were at most bounds[i] and above the bound before it; the last of n_bounds + 1: above
 * all. */
void exposition_histogram(struct exposition *e, const struct exposition_label *labels, size_t n,
                          const double *bounds, const uint64_t *counts, size_t n_bounds, double sum);
/* *ret is malloc'ed. -ENOMEM. */
int exposition_end(struct exposition *e, char **ret, size_t *ret_len);
/* In place of exposition_end(), when it is not to be said after all. */
void exposition_drop(struct exposition *e);
