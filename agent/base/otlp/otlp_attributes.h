/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Memory that is given back all at once, in pieces that are large enough for malloc to map and unmap them:
 * between two rounds, which are seconds apart, nothing is kept. Pointers stay valid until arena_clear().
 */
#include "base.h"
#include "otlp.h"
#include "otlp.pb-c.h"

#define ARENA_CHUNK (64 * 1024)

struct arena_chunk;
struct arena {
        struct arena_chunk *newest;
};

/* Zeroed, aligned for any type. NULL: out of memory. */
void *arena_alloc(struct arena *a, size_t size);
/*
 * A copy that is valid UTF-8, as protobuf demands of strings: each wrong byte becomes '?'. NULL: out of
 * memory.
 */
char *arena_text(struct arena *a, const char *text);
void arena_clear(struct arena *a);

/* Attributes as OTLP has them, in memory of an arena; bytes are only pointed to. -ENOMEM. */

/* At least what they take when encoded. */
size_t otlp_attributes_bytes(const struct otlp_attribute *a, size_t n);
/* *ret is NULL for none. */
int otlp_attributes_make(struct arena *arena, const struct otlp_attribute *a, size_t n,
                         Otlp__KeyValue ***ret);

/* The same of what came as JSON: null is no value, and whole numbers stay whole. As deep as the JSON is. */

/* NULL: 0. */
size_t otlp_json_bytes(json_t *v);
int otlp_json_value(struct arena *arena, json_t *v, Otlp__AnyValue *ret);
/* The members of an object; *ret is NULL when it has none. */
int otlp_json_attributes(struct arena *arena, json_t *object, Otlp__KeyValue ***ret, size_t *ret_n);
