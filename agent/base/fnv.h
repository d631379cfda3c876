/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* FNV-1a with 64 bits (draft-eastlake-fnv), for tables and for telling texts apart: not against an
 * adversary. */
#include "base.h"

#define FNV_BEGIN UINT64_C(0xcbf29ce484222325)

/* Goes on from hash, FNV_BEGIN at first. */
static inline uint64_t fnv(uint64_t hash, const void *data, size_t len) {
        for (const uint8_t *p = data; len > 0; p++, len--)
                hash = (hash ^ *p) * UINT64_C(0x100000001b3);
        return hash;
}

/* Without its end. */
static inline uint64_t fnv_text(uint64_t hash, const char *text) {
        return fnv(hash, text, strlen(text));
}
