/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The members of a struct as the keys of a JSON object, in one table for both directions: what a program
 * keeps of a struct in a state file, and takes back.
 */
#include <jansson.h>
#include <stddef.h>

#include "base.h"

enum json_field_kind {
        JSON_FIELD_TEXT,   /* char[] */
        JSON_FIELD_WORD,   /* char[] of [A-Za-z0-9+._-] */
        JSON_FIELD_NUMBER, /* unsigned, of 4 or 8 bytes, or an int that is not negative */
        JSON_FIELD_FLAG,   /* bool */
};

struct json_field {
        const char *key;
        enum json_field_kind kind;
        size_t offset, size;
        uint64_t min, max; /* of a number, 0: what its type holds */
};

/* A row. The last arguments, which may be left out: .min = …, .max = … */
#define JSON_FIELD(type, kind_, key_, member, ...)                                                          \
        {                                                                                                   \
                .key = (key_), .kind = JSON_FIELD_##kind_, .offset = offsetof(type, member),                \
                .size = sizeof(((type *) NULL)->member), __VA_ARGS__                                        \
        }

/* New reference; NULL: out of memory. */
json_t *json_fields_pack(const struct json_field fields[], size_t n, const void *from);
/*
 * to: zeroed before. Every key must be there; others are passed over. -EBADMSG, -ENOMEM: to may be half
 * filled, and is cleared by its own destructor.
 */
int json_fields_take(const json_t *o, const struct json_field fields[], size_t n, void *to);
