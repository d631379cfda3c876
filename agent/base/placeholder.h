/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Sentences of a table with words to be filled in: "tpuctl logs NAME". */
#include "base.h"

/* Puts value for each word in text, a buffer of size bytes; what does not fit is cut. */
void placeholder_fill(char *text, size_t size, const char *word, const char *value);
