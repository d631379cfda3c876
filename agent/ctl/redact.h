/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Takes secrets out of what is handed to others: "****" stands for each. Pure. In a text these are
 *   - what follows a secret's name (name_is_secret(), Authorization): after '=' or ':', and after an option
 *     (--token x); and what follows Bearer or Basic;
 *   - the user and password of a URL (scheme://user:password@host);
 *   - words that begin as tokens of well-known services do, and SECRET_ENCODED letters of base64 in a row.
 * A word too many costs a reader a detail; one too few is a leak.
 */
#include <jansson.h>

#include "base.h"

#define SECRET_ENCODED 40 /* base64 of 30 bytes: more than a 20-byte SHA-1 has, which is hexadecimal */

/* malloc'ed; NULL: out of memory. */
char *redact_text(const char *text);
/* All texts in v, a list or an object, in place. A member whose name is a secret's loses its whole text.
 * -ENOMEM. */
int redact_json(json_t *v);
