/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The words of a diagnosis. */
#include "blame.h"

/* "slice 1, worker 5 (10.10.0.15)". */
void sentence_host(FILE *f, const struct seen_host *h);
/* "is in `read` under `dataset.py:88 next_batch`". */
void sentence_place(FILE *f, const struct stack_table *t, const struct rank_class *c);
/* Fills sentence and details. */
void sentence_suspect(const struct diagnosis *d, struct suspect *s);
/* Fills d->summary. */
void sentence_summary(struct diagnosis *d);
