/* SPDX-License-Identifier: Apache-2.0 */
#include "json_fields.h"

#include <assert.h>

#include "json_text.h"

static json_t *pack_number(const struct json_field *f, const void *at) {
        uint64_t v = f->size == sizeof(uint32_t) ? *(const uint32_t *) at : *(const uint64_t *) at;

        return json_integer((json_int_t) MIN(v, (uint64_t) INT64_MAX));
}

static json_t *pack_field(const struct json_field *f, const char *at) {
        switch (f->kind) {
        case JSON_FIELD_TEXT:
        case JSON_FIELD_WORD:
                return json_string(at);
        case JSON_FIELD_NUMBER:
                return pack_number(f, at);
        case JSON_FIELD_FLAG:
                return json_boolean(*(const bool *) at);
        }
        return NULL;
}

json_t *json_fields_pack(const struct json_field fields[], size_t n, const void *from) {
        json_t *o = json_object();

        for (size_t i = 0; o && i < n; i++)
                o = json_member_add(o, fields[i].key,
                                    pack_field(&fields[i], (const char *) from + fields[i].offset));
        return o;
}

static int take_text(const struct json_field *f, const json_t *v, char *to) {
        static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+._-";
        const char *text = json_string_value(v);
        size_t n = json_string_length(v);

        if (!text || n >= f->size || strlen(text) != n ||
            (f->kind == JSON_FIELD_WORD && strspn(text, word) != n))
                return -EBADMSG;
        memcpy(to, text, n + 1);
        return 0;
}

static int take_number(const struct json_field *f, const json_t *v, void *to) {
        json_int_t n = json_integer_value(v);
        uint64_t max = f->max > 0 ? f->max : f->size == sizeof(uint32_t) ? UINT32_MAX : INT64_MAX;

        assert(f->size == sizeof(uint32_t) || f->size == sizeof(uint64_t));
        if (!json_is_integer(v) || n < 0 || (uint64_t) n < f->min || (uint64_t) n > max)
                return -EBADMSG;
        if (f->size == sizeof(uint32_t))
                *(uint32_t *) to = (uint32_t) n;
        else
                *(uint64_t *) to = (uint64_t) n;
        return 0;
}

static int take_field(const struct json_field *f, const json_t *v, char *at) {
        switch (f->kind) {
        case JSON_FIELD_TEXT:
        case JSON_FIELD_WORD:
                return take_text(f, v, at);
        case JSON_FIELD_NUMBER:
                return take_number(f, v, at);
        case JSON_FIELD_FLAG:
                *(bool *) at = json_is_true(v);
                return json_is_boolean(v) ? 0 : -EBADMSG;
        }
        return -EBADMSG;
}

int json_fields_take(const json_t *o, const struct json_field fields[], size_t n, void *to) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < n; i++)
                r = take_field(&fields[i], json_object_get(o, fields[i].key),
                               (char *) to + fields[i].offset);
        return r;
}
