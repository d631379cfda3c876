/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Members of a JSON object that others wrote, in which anything may be missing; and a list that is made.
 */
#include <jansson.h>
#include <stdint.h>

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

/* How many items the lists have together that the objects of list hold at key. */
static inline size_t json_sizes_sum(const json_t *list, const char *key) {
        size_t n = 0;

        for (size_t i = 0; i < json_array_size(list); i++)
                n += json_array_size(json_object_get(json_array_get(list, i), key));
        return n;
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
