/* SPDX-License-Identifier: Apache-2.0 */
#include "locals.h"

#include <stdarg.h>

#include "text.h"
#include "texts.h"

#define TYPE_NAME_OFFSET 24u /* PyTypeObject.tp_name, 3.8 to 3.15 (Include/cpython/object.h) */
#define FIRST_MEMBER 16u     /* behind PyObject: ob_fval, ob_ref, ma_used, ob_size (Include/cpython/) */
#define DIGITS_AT 24u        /* ob_digit: behind ob_size or lv_tag */
#define DIGIT_BITS 30u
#define TAG_INT 3u /* from 3.14 on: a small number instead of an object (pycore_stackref.h, Py_INT_TAG) */

void frame_locals_clear(struct frame_locals *l) {
        free(l->items);
        *l = (struct frame_locals) { 0 };
}

/* A value that is being described. */
struct value {
        struct memory *m;
        const struct interpreter *i;
        uint64_t address;
        bool secret;
        char type[64];
        char *buf; /* LOCAL_VALUE_MAX */
};

_printf_(2, 3) static int put_value(const struct value *v, const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(v->buf, LOCAL_VALUE_MAX, fmt, ap);
        va_end(ap);
        text_clean(v->buf); /* what was cut inside a character */
        return 0;
}

static int read_type(struct value *v) {
        uint64_t type = 0, name = 0;
        int r = memory_read_u64(v->m, v->address + v->i->layout->object.type, &type);

        if (r == 0)
                r = memory_read_u64(v->m, type + TYPE_NAME_OFFSET, &name);
        for (size_t n = 0; r == 0 && n < sizeof(v->type); n++) {
                r = memory_read(v->m, name + n, &v->type[n], 1);
                if (r == 0 && v->type[n] == '\0')
                        return 0;
        }
        v->type[sizeof(v->type) - 1] = '\0'; /* a long name is cut */
        return r;
}

/* To 3.11 the sign is that of ob_size; from 3.12 on the lowest two bits of lv_tag are 0 for positive, 1 for
 * zero, 2 for negative, and the number of digits begins at the fourth (Include/cpython/longintrepr.h). */
static int describe_int(const struct value *v, bool is_bool) {
        uint32_t digits[2] = { 0 };
        uint64_t size = 0, n;
        bool negative;
        int64_t number;
        int r = memory_read_u64(v->m, v->address + FIRST_MEMBER, &size);

        if (v->i->layout->version >= 0x030C) {
                negative = (size & 3) == 2;
                n = (size & 3) == 1 ? 0 : size >> 3;
        } else {
                negative = (int64_t) size < 0;
                n = negative ? -size : size;
        }
        if (r == 0 && n > ELEMENTSOF(digits))
                return n > (UINT64_C(1) << 32)
                               ? -EBADMSG
                               : put_value(v, "int of about %" PRIu64 " bits", n * DIGIT_BITS);
        if (r == 0 && n > 0)
                r = memory_read(v->m, v->address + DIGITS_AT, digits, n * sizeof(digits[0]));
        if (r < 0)
                return r;
        number = (int64_t) ((uint64_t) digits[1] << DIGIT_BITS | digits[0]);
        if (is_bool)
                return put_value(v, number ? "True" : "False");
        return put_value(v, "%" PRId64, negative ? -number : number);
}

static int describe_text(const struct value *v) {
        char text[TEXT_MAX];
        int r;

        if (v->secret)
                return put_value(v, "(hidden)");
        r = text_read(v->m, v->i->layout, v->i->types.unicode, v->address, text);
        return r < 0 ? r
                     : put_value(v, strlen(text) > LOCAL_VALUE_MAX - 8 ? "'%.*s…'" : "'%.*s'",
                           (int) LOCAL_VALUE_MAX - 8, text);
}

/* How many items something has whose number of them is its first member. */
static int describe_sized(const struct value *v) {
        uint64_t n;
        int r = memory_read_u64(v->m, v->address + FIRST_MEMBER, &n);

        return r < 0 ? r : n > (UINT64_C(1) << 48) ? -EBADMSG : put_value(v, "%s of %" PRIu64, v->type, n);
}

static int describe_value(struct value *v) {
        static const char *const sized[] = { "list",
                                             "tuple",
                                             "dict",
                                             "bytes",
                                             "bytearray",
                                             "collections.deque",
                                             "collections.OrderedDict",
                                             "collections.defaultdict" };
        double number;
        int r = read_type(v);

        if (r < 0)
                return r;
        text_clean(v->type);
        if (streq(v->type, "NoneType"))
                return put_value(v, "None");
        if (streq(v->type, "int") || streq(v->type, "bool"))
                return describe_int(v, streq(v->type, "bool"));
        if (streq(v->type, "str"))
                return describe_text(v);
        if (streq(v->type, "float")) {
                r = memory_read(v->m, v->address + FIRST_MEMBER, &number, sizeof(number));
                return r < 0 ? r : put_value(v, "%.17g", number);
        }
        for (size_t i = 0; i < ELEMENTSOF(sized); i++)
                if (streq(v->type, sized[i]))
                        return describe_sized(v);
        return put_value(v, "<%s>", v->type);
}

/* The value of a variable that inner functions use, too, is in a cell. */
static int open_cell(struct value *v) {
        int r = read_type(v);

        return r < 0 || !streq(v->type, "cell")
                       ? r
                       : memory_read_u64(v->m, v->address + FIRST_MEMBER, &v->address);
}

/* What stands in a frame, at `at`, under a name. *ret_any: it has a value. */
static int read_local(struct memory *m, const struct interpreter *i, uint64_t at, uint64_t name,
                    struct local *ret, bool *ret_any) {
        struct value v = { .m = m, .i = i, .buf = ret->value };
        char text[TEXT_MAX];
        int r = memory_read_u64(m, at, &v.address);

        *ret_any = r == 0 && v.address != 0;
        if (!*ret_any)
                return r;
        r = text_read(m, i->layout, i->types.unicode, name, text);
        if (r < 0)
                return r;
        v.secret = name_is_secret(text, strlen(text));
        (void) snprintf(ret->name, sizeof(ret->name), "%.*s", (int) sizeof(ret->name) - 1, text);
        text_clean(ret->name);
        if (i->layout->frame.tag && (v.address & TAG_INT) == TAG_INT)
                return put_value(&v, "%" PRId64, (int64_t) v.address >> 2);
        v.address &= ~(uint64_t) i->layout->frame.tag;
        *ret_any = v.address != 0;
        r = *ret_any ? open_cell(&v) : 0;
        *ret_any = v.address != 0;
        if (r == 0 && *ret_any)
                r = describe_value(&v);
        if (r == -EFAULT || r == -EBADMSG) { /* one value that makes no sense spoils no other */
                (void) snprintf(ret->value, sizeof(ret->value), "?");
                r = 0;
        }
        return r;
}

int locals_read(struct memory *m, const struct interpreter *i, const struct python_frame *f,
                struct frame_locals *ret) {
        _cleanup_(frame_locals_clear) struct frame_locals l = { 0 };
        const struct python_layout *layout = i->layout;
        uint64_t names = 0, n = 0;
        int r = memory_read_u64(m, f->code_address + layout->code.local_names, &names);

        if (r == 0)
                r = memory_read_u64(m, names + layout->object.var_size, &n);
        if (r < 0)
                return r;
        n = MIN(n, (uint64_t) LOCALS_MAX);
        l.items = calloc(n + 1, sizeof(*l.items));
        if (!l.items)
                return -ENOMEM;
        for (uint64_t k = 0; r == 0 && k < n; k++) {
                uint64_t name;
                bool any;

                r = memory_read_u64(m, names + layout->object.tuple_items + k * 8, &name);
                if (r == 0)
                        r = read_local(m, i, f->address + layout->frame.locals + k * 8, name, &l.items[l.n],
                                     &any);
                if (r == 0)
                        l.n += any;
        }
        if (r < 0)
                return r;
        *ret = l;
        l = (struct frame_locals) { 0 };
        return 0;
}
