/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Foreign text made fit for JSON, a database and a terminal. Pure.
 */
#include <jansson.h>

#include "base.h"

/*
 * Copies s (NULL: "") as a name: valid UTF-8, cut at a character, control characters as "?". Text that is
 * not UTF-8 keeps its ASCII, every other byte becomes "?".
 */
void text_name(char *buf, size_t size, const char *s);

/* A JSON string of s with the same rule for what is not UTF-8; control characters are kept (JSON escapes
 * them). NULL: no memory. */
json_t *text_json(const char *s);
