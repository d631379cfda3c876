/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Pure, and so apart from the part: the latest samples as text for a scraper, named as metric_name() says.
 * Counters end in _total. Families are in one piece, sorted by name, after build and target, which say whose
 * numbers these are.
 */
#include "exposition.h"
#include "metric_name.h"
#include "samples.h"

#define METRICS_LABELS_MAX 8

struct metrics_about {
        const char *version;
        /* whose numbers these are; value NULL: not known */
        struct exposition_label target[METRICS_LABELS_MAX];
};
/* *ret is malloc'ed. */
int metrics_text(const struct sample_store *s, const struct metrics_about *about, char **ret,
                 size_t *ret_len);
