/* SPDX-License-Identifier: Apache-2.0 */
#include "libtpu_answer.h"
#include "utf8.h"

static void scrub(char *to, const char *from) {
        utf8_copy(to, LIBTPU_TEXT_MAX, from);
        for (char *c = to; *c; c++)
                if (*c == '\n' || *c == '\t')
                        *c = ' ';
}

/* False: it has no value that a label can have. */
static bool print_value(const Libtpu__AttrValue *v, char text[static LIBTPU_TEXT_MAX]) {
        switch (v ? (int) v->attr_case : 0) { /* protobuf-c's padding member has another name before 1.4 */
        case LIBTPU__ATTR_VALUE__ATTR_STRING_ATTR:
                scrub(text, v->string_attr);
                return true;
        case LIBTPU__ATTR_VALUE__ATTR_BOOL_ATTR:
                (void) snprintf(text, LIBTPU_TEXT_MAX, "%s", v->bool_attr ? "true" : "false");
                return true;
        case LIBTPU__ATTR_VALUE__ATTR_INT_ATTR:
                (void) snprintf(text, LIBTPU_TEXT_MAX, "%" PRIi64, v->int_attr);
                return true;
        case LIBTPU__ATTR_VALUE__ATTR_DOUBLE_ATTR:
                (void) snprintf(text, LIBTPU_TEXT_MAX, "%.17g", v->double_attr);
                return true;
        default: /* nothing, or a list in a list: it names nothing that we know */
                break;
        }
        return false;
}

static void add(struct libtpu_reader *r, const Libtpu__Attribute *a) {
        struct libtpu_attribute *to;

        if (r->n_attributes >= LIBTPU_ATTRIBUTES_MAX)
                return;
        to = &r->attributes[r->n_attributes];
        if (!print_value(a->value, to->value))
                return;
        scrub(to->key, a->key);
        r->n_attributes++;
}

void libtpu_attributes_read(struct libtpu_reader *r, const Libtpu__Attribute *a) {
        const Libtpu__KeyValueList *list;

        r->n_attributes = 0;
        if (!a || !a->value)
                return;
        if (a->value->attr_case != LIBTPU__ATTR_VALUE__ATTR_KVLIST_ATTR)
                return add(r, a);
        list = a->value->kvlist_attr;
        for (size_t i = 0; i < list->n_attributes; i++)
                add(r, list->attributes[i]);
}

/* tpu-info looks for "buffer-size", GKE's device plugin for "buffer_size". */
static bool same_key(const char *a, const char *b) {
        for (; *a && *b; a++, b++)
                if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_')))
                        return false;
        return *a == *b;
}

static bool is_digits(const char *s) {
        size_t n = strspn(s, "0123456789");

        return n > 0 && !s[n];
}

/* The device: "device_ordinal" of a list, else the only attribute, whatever it is called, if it is a number.
 */
static const char *device_of(const struct libtpu_reader *r) {
        for (size_t i = 0; i < r->n_attributes; i++)
                if (same_key(r->attributes[i].key, "device_ordinal"))
                        return is_digits(r->attributes[i].value) ? r->attributes[i].value : "";
        if (r->n_attributes == 1 && is_digits(r->attributes[0].value))
                return r->attributes[0].value;
        return "";
}

const char *libtpu_attribute_value(const struct libtpu_reader *r, const char *key) {
        if (!key[0])
                return device_of(r);
        for (size_t i = 0; i < r->n_attributes; i++)
                if (same_key(r->attributes[i].key, key))
                        return r->attributes[i].value;
        return "";
}
