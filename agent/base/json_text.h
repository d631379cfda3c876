/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A text out of a JSON object that others wrote, in which anything may be missing; and a list that is made.
 */
#include <jansson.h>

/* Borrowed from o. "" when o is no object, has no such key, or has no text there. */
static inline const char *json_text_of(const json_t *o, const char *key) {
        const char *text = json_string_value(json_object_get(o, key));

        return text ? text : "";
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
