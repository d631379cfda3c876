/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* NULL-terminated lists of texts, each malloc'ed. */
#include "base.h"

/* Copies n strings into a NULL-terminated array. NULL when out of memory. */
char **strings_copy(const char *const *from, size_t n);
/* Returns NULL. */
char **strings_free(char **l);
DEFINE_CLEANUP(char **, strings_free)
