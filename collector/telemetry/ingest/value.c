/* SPDX-License-Identifier: Apache-2.0 */
#include "value.h"

#include <math.h>

#include "json_text.h"
#include "texts.h"
#include "utf8.h"

/* Control characters are kept: JSON escapes them. */
static json_t *text_json(const char *s) {
        json_t *v = json_string(s); /* takes UTF-8 only */
        _cleanup_free_ char *copy = v ? NULL : strdup(s);

        if (!copy)
                return v;
        (void) utf8_scrub(copy, strlen(copy));
        return json_string(copy);
}

static json_t *number_to_json(double d) {
        if (isnan(d))
                return json_string("NaN");
        if (isinf(d))
                return json_string(d > 0 ? "Infinity" : "-Infinity");
        return json_real(d);
}

static json_t *bytes_to_json(const ProtobufCBinaryData *b) {
        _cleanup_free_ char *text = hex_encode(b->data, b->len);

        return text ? json_string(text) : NULL;
}

static json_t *array_to_json(const Otlp__ArrayValue *a) {
        json_t *list = json_array();

        for (size_t i = 0; i < a->n_values; i++)
                list = json_list_add(list, value_to_json(a->values[i]));
        return list;
}

json_t *value_to_json(const Otlp__AnyValue *v) {
        if (!v)
                return json_null();
        switch ((int) v->value_case) { /* protobuf-c's padding member has another name before 1.4 */
        case OTLP__ANY_VALUE__VALUE_STRING_VALUE:
                return text_json(v->string_value);
        case OTLP__ANY_VALUE__VALUE_BOOL_VALUE:
                return json_boolean(v->bool_value);
        case OTLP__ANY_VALUE__VALUE_INT_VALUE:
                return json_integer(v->int_value);
        case OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE:
                return number_to_json(v->double_value);
        case OTLP__ANY_VALUE__VALUE_ARRAY_VALUE:
                return array_to_json(v->array_value);
        case OTLP__ANY_VALUE__VALUE_KVLIST_VALUE:
                return value_list_to_json(v->kvlist_value->values, v->kvlist_value->n_values);
        case OTLP__ANY_VALUE__VALUE_BYTES_VALUE:
                return bytes_to_json(&v->bytes_value);
        default: /* not set */
                break;
        }
        return json_null();
}

int value_add(json_t *object, const Otlp__KeyValue *kv) {
        json_auto_t *key = text_json(kv->key);

        if (!key || json_object_set_new(object, json_string_value(key), value_to_json(kv->value)) < 0)
                return -ENOMEM;
        return 0;
}

json_t *value_list_to_json(Otlp__KeyValue *const *list, size_t n) {
        json_auto_t *object = json_object();

        for (size_t i = 0; object && i < n; i++)
                if (value_add(object, list[i]) < 0)
                        return NULL;
        return TAKE_PTR(object);
}

static const Otlp__AnyValue *find_value(Otlp__KeyValue *const *list, size_t n, const char *key) {
        for (size_t i = 0; i < n; i++)
                if (streq(list[i]->key, key))
                        return list[i]->value;
        return NULL;
}

const char *value_find_text(Otlp__KeyValue *const *list, size_t n, const char *key) {
        const Otlp__AnyValue *v = find_value(list, n, key);

        return v && v->value_case == OTLP__ANY_VALUE__VALUE_STRING_VALUE ? v->string_value : NULL;
}

int64_t value_find_number(Otlp__KeyValue *const *list, size_t n, const char *key) {
        const Otlp__AnyValue *v = find_value(list, n, key);
        int64_t number_found = 0;

        if (v && v->value_case == OTLP__ANY_VALUE__VALUE_INT_VALUE)
                return v->int_value >= 0 ? v->int_value : -1;
        if (!v || v->value_case != OTLP__ANY_VALUE__VALUE_STRING_VALUE || !*v->string_value)
                return -1;
        for (const char *p = v->string_value; *p; p++) {
                if (*p < '0' || *p > '9' || number_found > INT32_MAX)
                        return -1;
                number_found = number_found * 10 + (*p - '0');
        }
        return number_found;
}
