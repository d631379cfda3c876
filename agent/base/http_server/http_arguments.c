/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "http_arguments.h"
#include "clock.h"
#include "known_names.h"
#include "texts.h"
#include "utf8.h"

#define KEY_SHOWN 40 /* bytes of a name that is not ours */
#define VALUE_SHOWN 32
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

__attribute__((format(printf, 3, 4))) static int argument_wrong(struct arguments *a, const char *key,
                                                                const char *fmt, ...) {
        char shown[KEY_SHOWN + 1], what[ARGUMENTS_WHY_MAX - KEY_SHOWN - 2];
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(what, sizeof(what), fmt, ap);
        va_end(ap);
        utf8_copy(shown, sizeof(shown), key);
        return text_fail(a->why, sizeof(a->why), -EINVAL, "%s=%s", shown, what);
}

static int argument_unknown(struct arguments *a, const char *key) {
        char list[ARGUMENTS_WHY_MAX] = "";

        if (a->lenient)
                return 0;
        for (const struct argument *t = a->table; t && t->name; t++)
                text_append(list, sizeof(list), ", ", "%s=", t->name);
        return argument_wrong(a, key, " is not known; this call takes %s", list[0] ? list : "none");
}

static int argument_word(struct arguments *a, const struct argument *t, const char *value) {
        struct known_names k = known_names(value);
        char buf[KNOWN_TEXT_MAX];

        for (size_t i = 0; t->words[i]; i++) {
                if (streq(t->words[i], value))
                        return 0;
                known_names_add(&k, t->words[i]);
        }
        k.wanted[VALUE_SHOWN] = '\0';
        return argument_wrong(a, t->name, "%s is not known%s", k.wanted, known_names_text(&k, buf));
}

static int argument_text(struct arguments *a, const struct argument *t, const char *value) {
        if (!*value && t->least > 0)
                return argument_wrong(a, t->name, " is empty");
        if (t->most > 0 && strlen(value) >= (size_t) t->most)
                return argument_wrong(a, t->name, " takes at most %" PRIi64 " bytes", t->most - 1);
        if (t->kind == ARGUMENT_NAME && value[strspn(value, LETTERS)])
                return argument_wrong(a, t->name, " is no name");
        if (t->words && *value)
                return argument_word(a, t, value);
        return 0;
}

static int argument_number(struct arguments *a, const struct argument *t, const char *value, int64_t *ret) {
        char shown[VALUE_SHOWN + 1];
        int64_t n = 0;
        bool good = *value;

        for (const char *p = value; *p && good; p++)
                good = *p >= '0' && *p <= '9' && !__builtin_mul_overflow(n, 10, &n) &&
                       !__builtin_add_overflow(n, *p - '0', &n);
        utf8_copy(shown, sizeof(shown), value);
        if (good && n >= t->least && n <= t->most) {
                *ret = n;
                return 0;
        }
        if (t->most == INT64_MAX)
                return argument_wrong(a, t->name, "%s is no number from %" PRIi64 " up", shown, t->least);
        return argument_wrong(a, t->name, "%s is no number from %" PRIi64 " to %" PRIi64, shown, t->least,
                              t->most);
}

static int argument_time(struct arguments *a, const struct argument *t, const char *value, int64_t *ret) {
        char shown[VALUE_SHOWN + 1];
        usec_t at;

        utf8_copy(shown, sizeof(shown), value);
        if (clock_parse(value, &at) < 0)
                return argument_wrong(a, t->name,
                                      "%s is no time as 2026-11-21T05:00:00Z, or seconds since 1970", shown);
        *ret = (int64_t) at;
        return 0;
}

int arguments_take(struct arguments *a, const char *key, const char *value) {
        const struct argument *t = a->table;
        size_t i = 0;

        while (t && t[i].name && !streq(key, t[i].name))
                i++;
        if (!t || !t[i].name)
                return argument_unknown(a, key);
        assert(i < ARGUMENTS_MAX);
        if (a->given & 1U << i)
                return argument_wrong(a, key, " is given twice");
        a->given |= 1U << i;
        a->text[i] = *value ? value : NULL;
        switch (t[i].kind) {
        case ARGUMENT_TEXT:
        case ARGUMENT_NAME:
                return argument_text(a, &t[i], value);
        case ARGUMENT_NUMBER:
                return argument_number(a, &t[i], value, &a->number[i]);
        case ARGUMENT_TIME:
                return argument_time(a, &t[i], value, &a->number[i]);
        }
        assert(false);
}

static int on_parameter(const char *key, const char *value, void *userdata) {
        return arguments_take(userdata, key, value);
}

int arguments_read(struct arguments *a, const struct http_request *q) {
        int r;

        a->given = 0;
        for (size_t i = 0; i < ARGUMENTS_MAX; i++) {
                a->text[i] = NULL;
                a->number[i] = -1;
        }
        r = http_query(q, on_parameter, a);
        for (size_t i = 0; r == 0 && a->table && a->table[i].name; i++)
                if (a->table[i].needed && !a->text[i])
                        r = argument_wrong(a, a->table[i].name, " is needed");
        return r;
}

static size_t argument_place(const struct arguments *a, const char *name) {
        size_t i = 0;

        while (!streq(a->table[i].name, name)) {
                i++;
                assert(a->table[i].name); /* a call asks for what its table has */
        }
        return i;
}

const char *arguments_text(const struct arguments *a, const char *name) {
        return a->text[argument_place(a, name)];
}

int64_t arguments_number(const struct arguments *a, const char *name, int64_t not_given) {
        int64_t n = a->number[argument_place(a, name)];

        return n < 0 ? not_given : n;
}
