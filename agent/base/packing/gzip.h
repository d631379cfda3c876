/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Packs the body of a request (RFC 1952). Level 1 and a window of 16 KiB: what OTLP repeats (names, keys)
 * lies close together; level 6 takes three times the processor for 2 % less (measured on 10,000 points).
 */
#include "base.h"

#define GZIP_LEAST 1024 /* shorter bodies go in one packet anyway */

/*
 * Packs data into out, which holds size bytes. Returns the length, or 0 when it does not pay: short, or not
 * at least a tenth shorter, or no memory for it; what is sent then is the body as it is.
 */
size_t gzip_pack(const void *data, size_t len, void *out, size_t size);

/*
 * What comes in pieces, as gzip (RFC 1952): packed as it comes, so that whoever makes it knows all along how
 * much that is.
 */

struct pack;
/* -ENOMEM. */
int pack_new(struct pack **ret);
struct pack *pack_free(struct pack *p);
DEFINE_CLEANUP(struct pack *, pack_free)

/* *ret: what it has become so far, all of it; borrowed, until the next call. last: nothing is added any
 * more. -ENOMEM. */
int pack_add(struct pack *p, const void *data, size_t len, bool last, const uint8_t **ret, size_t *ret_len);

/* Content-Encoding: gzip, bounded (zlib): one member, or several, whose contents add up (RFC 1952). Pure. */

/* *ret is malloc'ed. -EBADMSG: no gzip stream, damaged, cut off or followed by other bytes; -E2BIG: more
 * than max; -ENOMEM. */
int inflate_gzip(const void *data, size_t len, size_t max, uint8_t **ret, size_t *ret_len);
/* The first member alone; *ret_used: how much of data it is. */
int inflate_gzip_member(const void *data, size_t len, size_t max, size_t *ret_used, uint8_t **ret,
                        size_t *ret_len);
