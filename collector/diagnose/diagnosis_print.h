/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A diagnosis for people and for programs. The same for the same captures, in whatever order. */
#include <jansson.h>

#include "blame.h"

/* Sentence, suspects, tree. all: every thread is in the tree, not only those that are evidence. Texts from
 * outside are UTF-8 without control characters (the readers see to it). -ENOMEM, -EIO. */
int diagnosis_print_text(FILE *f, const struct diagnosis *d, bool all);
/* The same as the text; keys in docs/diagnose.md. New reference, or NULL when out of memory. */
json_t *diagnosis_to_json(const struct diagnosis *d, bool all);
