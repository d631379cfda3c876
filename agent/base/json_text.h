/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A text out of a JSON object that others wrote, in which anything may be missing.
 */
#include <jansson.h>

/* Borrowed from o. "" when o is no object, has no such key, or has no text there. */
static inline const char *json_text_of(const json_t *o, const char *key) {
        const char *text = json_string_value(json_object_get(o, key));

        return text ? text : "";
}
