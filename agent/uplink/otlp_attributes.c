/* SPDX-License-Identifier: Apache-2.0 */
#include "otlp_attributes.h"

#define ATTRIBUTE_BYTES 32 /* upper bound of what tags, lengths and fixed fields take */

size_t otlp_attributes_bytes(const struct otlp_attribute *a, size_t n) {
        size_t sum = 0;

        for (size_t i = 0; i < n; i++)
                sum += ATTRIBUTE_BYTES + strlen(a[i].key) + (a[i].text ? strlen(a[i].text) : 0);
        return sum;
}

int otlp_value_make(struct arena *arena, const struct otlp_attribute *a, Otlp__AnyValue *ret) {
        otlp__any_value__init(ret);
        if (!a->text) {
                ret->value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
                ret->int_value = a->number;
                return 0;
        }
        ret->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
        ret->string_value = arena_text(arena, a->text);
        return ret->string_value ? 0 : -ENOMEM;
}

int otlp_attributes_make(struct arena *arena, const struct otlp_attribute *a, size_t n,
                         Otlp__KeyValue ***ret) {
        struct pair {
                Otlp__KeyValue kv;
                Otlp__AnyValue value;
        } *pairs;
        Otlp__KeyValue **list;

        *ret = NULL;
        if (n == 0)
                return 0;
        list = arena_alloc(arena, n * sizeof(*list));
        pairs = arena_alloc(arena, n * sizeof(*pairs));
        if (!list || !pairs)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                otlp__key_value__init(&pairs[i].kv);
                pairs[i].kv.key = arena_text(arena, a[i].key);
                if (!pairs[i].kv.key || otlp_value_make(arena, &a[i], &pairs[i].value) < 0)
                        return -ENOMEM;
                pairs[i].kv.value = &pairs[i].value;
                list[i] = &pairs[i].kv;
        }
        *ret = list;
        return 0;
}
