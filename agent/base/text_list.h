/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* NULL-terminated lists of texts, each malloc'ed, and their JSON. */
#include <jansson.h>

#include "base.h"

/* Copies n strings into a NULL-terminated array. NULL when out of memory. */
char **strings_copy(const char *const *from, size_t n);
/* Returns NULL. */
char **strings_free(char **l);
DEFINE_CLEANUP(char **, strings_free)

/* An array, empty for NULL. NULL when out of memory. */
json_t *strings_to_json(char *const *l);
/* NULL when a is no array of at most max texts, or out of memory. */
char **strings_from_json(const json_t *a, size_t max);
