/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Scalars of the proto3 JSON mapping. Pure. All: -EINVAL when it is none.
 */
#include <jansson.h>
#include <sys/types.h>

#include "base.h"

/* A number, or a text of one, of "NaN", "Infinity" or "-Infinity". */
int json_number_double(const json_t *v, double *ret);
/* A whole number, or a decimal text of one, as 64 bits; without a sign it goes up to UINT64_MAX. */
int json_number_integer(const json_t *v, bool is_unsigned, uint64_t *ret);
/* Into at most len bytes; returns how many. base64 in either alphabet, padded or not. */
ssize_t json_hex(const char *text, size_t len, uint8_t *ret);
ssize_t json_base64(const char *text, size_t len, uint8_t *ret);
