/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What comes in pieces, as gzip (RFC 1952): packed as it comes, so that whoever makes it knows all along how
 * much that is.
 */
#include "base.h"

struct pack;
/* -ENOMEM. */
int pack_new(struct pack **ret);
struct pack *pack_free(struct pack *p);
DEFINE_CLEANUP(struct pack *, pack_free)

/* *ret: what it has become so far, all of it; borrowed, until the next call. last: nothing is added any
 * more. -ENOMEM. */
int pack_add(struct pack *p, const void *data, size_t len, bool last, const uint8_t **ret, size_t *ret_len);
