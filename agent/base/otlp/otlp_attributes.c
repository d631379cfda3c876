/* SPDX-License-Identifier: Apache-2.0 */
#include "otlp_attributes.h"

#include <assert.h>

#include "utf8.h"

/* --- Memory ------------------------------------------------------------------------------------------- */

struct arena_chunk {
        struct arena_chunk *older;
        size_t size, used;
        _Alignas(16) uint8_t data[];
};

void *arena_alloc(struct arena *a, size_t size) {
        struct arena_chunk *c = a->newest;
        void *p;

        if (size > SIZE_MAX / 2)
                return NULL;
        size = (size + 15) & ~(size_t) 15;
        if (!c || c->size - c->used < size) {
                c = malloc(sizeof(*c) + MAX(size, (size_t) ARENA_CHUNK));
                if (!c)
                        return NULL;
                *c = (struct arena_chunk){ .older = a->newest, .size = MAX(size, (size_t) ARENA_CHUNK) };
                a->newest = c;
        }
        assert(c->used + size <= c->size);
        p = c->data + c->used;
        c->used += size;
        return memset(p, 0, size);
}

char *arena_text(struct arena *a, const char *text) {
        size_t len = strlen(text);
        char *copy = arena_alloc(a, len + 1);

        if (!copy)
                return NULL;
        memcpy(copy, text, len);
        utf8_mend(copy);
        return copy;
}

void arena_clear(struct arena *a) {
        while (a->newest) {
                struct arena_chunk *c = a->newest;

                a->newest = c->older;
                free(c);
        }
}

/* --- Attributes --------------------------------------------------------------------------------------- */

#define ATTRIBUTE_BYTES 32 /* upper bound of what tags, lengths and fixed fields take */

size_t otlp_attributes_bytes(const struct otlp_attribute *a, size_t n) {
        size_t sum = 0;

        for (size_t i = 0; i < n; i++)
                sum += ATTRIBUTE_BYTES + strlen(a[i].key) + (a[i].text ? strlen(a[i].text) : 0);
        return sum;
}

static int otlp_value_make(struct arena *arena, const struct otlp_attribute *a, Otlp__AnyValue *ret) {
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

/* --- JSON ---------------------------------------------------------------------------------------------- */

size_t otlp_json_bytes(json_t *v) {
        size_t sum = v ? ATTRIBUTE_BYTES : 0, i;
        const char *key;
        json_t *item;

        if (json_is_string(v))
                return sum + json_string_length(v);
        json_object_foreach (v, key, item)
                sum += ATTRIBUTE_BYTES + strlen(key) + otlp_json_bytes(item);
        json_array_foreach (v, i, item)
                sum += otlp_json_bytes(item);
        return sum;
}

static int otlp_json_list(struct arena *arena, json_t *v, Otlp__AnyValue *ret) {
        Otlp__ArrayValue *a = arena_alloc(arena, sizeof(*a));
        size_t n = json_array_size(v), i;
        Otlp__AnyValue *values = arena_alloc(arena, MAX(n, (size_t) 1) * sizeof(*values));
        json_t *item;
        int r;

        if (!a || !values)
                return -ENOMEM;
        otlp__array_value__init(a);
        a->values = arena_alloc(arena, MAX(n, (size_t) 1) * sizeof(Otlp__AnyValue *));
        if (!a->values)
                return -ENOMEM;
        json_array_foreach (v, i, item) {
                r = otlp_json_value(arena, item, &values[i]);
                if (r < 0)
                        return r;
                a->values[a->n_values++] = &values[i];
        }
        ret->value_case = OTLP__ANY_VALUE__VALUE_ARRAY_VALUE;
        ret->array_value = a;
        return 0;
}

static int otlp_json_members(struct arena *arena, json_t *v, Otlp__AnyValue *ret) {
        Otlp__KeyValueList *list = arena_alloc(arena, sizeof(*list));

        if (!list)
                return -ENOMEM;
        otlp__key_value_list__init(list);
        ret->value_case = OTLP__ANY_VALUE__VALUE_KVLIST_VALUE;
        ret->kvlist_value = list;
        return otlp_json_attributes(arena, v, &list->values, &list->n_values);
}

int otlp_json_value(struct arena *arena, json_t *v, Otlp__AnyValue *ret) {
        otlp__any_value__init(ret);
        if (json_is_object(v))
                return otlp_json_members(arena, v, ret);
        if (json_is_array(v))
                return otlp_json_list(arena, v, ret);
        if (json_is_string(v)) {
                ret->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
                ret->string_value = arena_text(arena, json_string_value(v));
                return ret->string_value ? 0 : -ENOMEM;
        }
        if (json_is_integer(v)) {
                ret->value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
                ret->int_value = json_integer_value(v);
        } else if (json_is_real(v)) {
                ret->value_case = OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE;
                ret->double_value = json_real_value(v);
        } else if (json_is_boolean(v)) {
                ret->value_case = OTLP__ANY_VALUE__VALUE_BOOL_VALUE;
                ret->bool_value = json_is_true(v);
        }
        return 0;
}

int otlp_json_attributes(struct arena *arena, json_t *object, Otlp__KeyValue ***ret, size_t *ret_n) {
        struct json_pair {
                Otlp__KeyValue kv;
                Otlp__AnyValue value;
        } *pairs;
        size_t size = json_object_size(object), n = 0;
        Otlp__KeyValue **list;
        const char *key;
        json_t *item;
        int r;

        *ret = NULL;
        *ret_n = 0;
        if (size == 0)
                return 0;
        list = arena_alloc(arena, size * sizeof(*list));
        pairs = arena_alloc(arena, size * sizeof(*pairs));
        if (!list || !pairs)
                return -ENOMEM;
        json_object_foreach (object, key, item) {
                otlp__key_value__init(&pairs[n].kv);
                pairs[n].kv.key = arena_text(arena, key);
                r = pairs[n].kv.key ? otlp_json_value(arena, item, &pairs[n].value) : -ENOMEM;
                if (r < 0)
                        return r;
                pairs[n].kv.value = &pairs[n].value;
                list[n] = &pairs[n].kv;
                n++;
        }
        *ret = list;
        *ret_n = n;
        return 0;
}
