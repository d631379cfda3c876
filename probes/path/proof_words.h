/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The words of a report's "answer" and "direction" (docs/path.md). They stay: saved reports hold them. */
#include "proof.h"

/* "passes", "pieces", "smaller", "silent", "refused", "open". */
const char *proof_answer_word(enum proof_answer a);
int proof_answer_parse(const char *word, enum proof_answer *ret); /* -EINVAL */
/* "unknown", "there", "back". */
const char *proof_direction_word(enum proof_direction d);
int proof_direction_parse(const char *word, enum proof_direction *ret); /* -EINVAL */
