/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Members of a JSON object that others wrote, in which anything may be missing; and objects and lists
 * that are made.
 */
#include <jansson.h>

#include "base.h"

/* Borrowed from o. "" when o is no object, has no such key, or has no text there. */
static inline const char *json_text_of(const json_t *o, const char *key) {
        const char *text = json_string_value(json_object_get(o, key));

        return text ? text : "";
}

/* 0 when o is no object, has no such key, has no whole number there, or one below 0. */
static inline uint64_t json_number_of(const json_t *o, const char *key) {
        json_int_t n = json_integer_value(json_object_get(o, key));

        return n > 0 ? (uint64_t) n : 0;
}

/* Where 0 is a number as any other: -1 when o is no object, has no such key, or has no whole number from 0
 * on there. */
static inline int64_t json_known_of(const json_t *o, const char *key) {
        const json_t *n = json_object_get(o, key);

        return json_is_integer(n) && json_integer_value(n) >= 0 ? json_integer_value(n) : -1;
}

/* Whether the text is one of a list's. */
static inline bool json_list_has(const json_t *list, const char *text) {
        for (size_t i = 0; i < json_array_size(list); i++) {
                const char *item = json_string_value(json_array_get(list, i));

                if (item && streq(item, text))
                        return true;
        }
        return false;
}

/* How many items the lists have together that the objects of list hold at key. */
static inline size_t json_sizes_sum(const json_t *list, const char *key) {
        size_t n = 0;

        for (size_t i = 0; i < json_array_size(list); i++)
                n += json_array_size(json_object_get(json_array_get(list, i), key));
        return n;
}

/* Hands o on with value, which is taken over, as its member key; NULL, and both are gone, where either is
 * NULL or memory ran out. */
static inline json_t *json_member_add(json_t *o, const char *key, json_t *value) {
        if (json_object_set_new(o, key, value) >= 0) /* refuses a NULL, and drops value */
                return o;
        json_decref(o);
        return NULL;
}

/* Hands list on with item at its end, which is taken over; NULL, and both are gone, where either is NULL or
 * memory ran out. */
static inline json_t *json_list_add(json_t *list, json_t *item) {
        if (list && json_array_append_new(list, item) >= 0) /* refuses a NULL item */
                return list;
        if (!list)
                json_decref(item);
        json_decref(list);
        return NULL;
}
