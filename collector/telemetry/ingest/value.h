/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * OTLP values as JSON: texts, booleans, integers and numbers as themselves (NaN and infinities as the texts
 * "NaN", "Infinity", "-Infinity"), arrays, key-value lists as objects (a key given twice: the last wins),
 * bytes as a text of hex digits, no value as null; what is no UTF-8 in a text is "?". Recurses as deep as
 * the message does: wire_check() first.
 */
#include <jansson.h>

#include "base.h"
#include "otlp.pb-c.h"

/* New references, NULL when out of memory. */
json_t *value_to_json(const Otlp__AnyValue *v);
json_t *value_list_to_json(Otlp__KeyValue *const *list, size_t n);
/* One more of them into an object. -ENOMEM. */
int value_add(json_t *object, const Otlp__KeyValue *kv);

/* The text of the attribute key, or NULL when there is none or it is no text. Borrowed from the list. */
const char *value_find_text(Otlp__KeyValue *const *list, size_t n, const char *key);
/* The whole number of the attribute key (an integer, or a text of decimal digits), or -1. */
int64_t value_find_number(Otlp__KeyValue *const *list, size_t n, const char *key);
