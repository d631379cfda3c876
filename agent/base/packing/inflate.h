/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Content-Encoding: gzip, bounded (zlib): one member, or several, whose contents add up (RFC 1952). Pure.
 */
#include "base.h"

/* *ret is malloc'ed. -EBADMSG: no gzip stream, damaged, cut off or followed by other bytes; -E2BIG: more
 * than max; -ENOMEM. */
int inflate_gzip(const void *data, size_t len, size_t max, uint8_t **ret, size_t *ret_len);
/* The first member alone; *ret_used: how much of data it is. */
int inflate_gzip_member(const void *data, size_t len, size_t max, size_t *ret_used, uint8_t **ret,
                        size_t *ret_len);
