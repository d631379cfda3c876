/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Bytes as hexadecimal digits, in lower case. */
#include "base.h"

/* malloc'ed; NULL: out of memory. */
char *hex_encode(const void *data, size_t len);
/* *ret is malloc'ed. -EPROTO: text has other characters, or an odd number of them; -ENOMEM. */
int hex_decode(const char *text, uint8_t **ret, size_t *ret_len);
