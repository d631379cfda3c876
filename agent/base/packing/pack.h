/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Text that comes in pieces, as gzip (RFC 1952): packed as it comes, so that no turn of the loop packs much of it.
 * Bounded in what goes in and what comes out.
 */
#include "base.h"

struct pack;
/* max_in, max_out: bytes. -ENOMEM. */
int pack_new(size_t max_in, size_t max_out, struct pack **ret);
struct pack *pack_free(struct pack *p);
DEFINE_CLEANUP(struct pack *, pack_free)

/* -E2BIG: more than max_in, or it does not fit into max_out: nothing of it is of use then. -ENOMEM. */
int pack_add(struct pack *p, const char *data, size_t len);
/* All of it; borrowed from p, to which nothing is added any more. -E2BIG, -ENOMEM. */
int pack_end(struct pack *p, const uint8_t **ret, size_t *ret_len);
