/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The words of a diagnosis. */
#include "blame.h"

/* Fills sentence and details. */
void sentence_suspect(const struct diagnosis *d, struct suspect *s);
/* Fills d->summary. */
void sentence_summary(struct diagnosis *d);
