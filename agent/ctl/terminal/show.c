/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <time.h>

#include "clock.h"
#include "json_text.h"
#include "show.h"
#include "table.h"

#define KEY_MAX 48

struct showing {
        const json_t *object;
        usec_t now;
        bool listed; /* something was printed since the list began */
};

/* --- Values -------------------------------------------------------------------------------------------- */

static const char *value_text(const json_t *v, char buf[static FIELD_TEXT_MAX]) {
        if (json_is_string(v))
                return json_string_value(v);
        if (json_is_integer(v))
                (void) snprintf(buf, FIELD_TEXT_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        else if (json_is_real(v))
                (void) snprintf(buf, FIELD_TEXT_MAX, "%g", json_real_value(v));
        else if (json_is_boolean(v))
                (void) snprintf(buf, FIELD_TEXT_MAX, "%s", json_is_true(v) ? "true" : "false");
        else
                return "";
        return buf;
}

const char *field_text(const json_t *o, const char *key, char buf[static FIELD_TEXT_MAX]) {
        return value_text(json_object_get(o, key), buf);
}

static double value_number(const json_t *v) {
        return json_is_number(v) ? json_number_value(v) : NAN;
}

double field_number(const json_t *o, const char *key) {
        return value_number(json_object_get(o, key));
}

/* Seconds from now until an RFC 3339 UTC time, or one in microseconds; NAN: it is no time. */
static double value_left(const json_t *v, usec_t now) {
        const char *text = json_string_value(v);
        struct tm tm = { 0 };
        const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;

        if (json_is_integer(v) && json_integer_value(v) > 0)
                return ((double) json_integer_value(v) - (double) now) / (double) USEC_PER_SEC;
        if (!end || (*end != 'Z' && *end != '.'))
                return NAN;
        return (double) timegm(&tm) - (double) (now / USEC_PER_SEC);
}

static bool is_there(const json_t *v) {
        return json_is_string(v)                     ? json_string_length(v) > 0
               : json_is_array(v) || json_is_object(v) ? json_array_size(v) + json_object_size(v) > 0
                                                     : json_is_number(v) || json_is_true(v);
}

/* --- Kinds --------------------------------------------------------------------------------------------- */

/* n in the largest unit that it fills. */
static const char *scaled_text(double n, double step, const char *const units[], size_t n_units,
                               char buf[static SPAN_TEXT_MAX]) {
        size_t u = 0;

        if (!(n >= 0))
                return "-";
        for (; n >= step && u + 1 < n_units; u++)
                n /= step;
        (void) snprintf(buf, SPAN_TEXT_MAX, n < 99.95 ? "%.3g %s" : "%.0f %s", n, units[u]);
        return buf;
}

static const char *bytes_text(double n, char buf[static SPAN_TEXT_MAX]) {
        static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };

        return scaled_text(n, 1024, units, ELEMENTSOF(units), buf);
}

/* As data rates are spoken of: bits, by thousands. */
static const char *bits_text(double n, char buf[static SPAN_TEXT_MAX]) {
        static const char *const units[] = { "bit/s", "kbit/s", "Mbit/s", "Gbit/s" };

        return scaled_text(n > 0 ? n * 8 : NAN, 1000, units, ELEMENTSOF(units), buf);
}

static const char *count_text(double n, char buf[static SPAN_TEXT_MAX]) {
        if (!(n >= 0))
                return "-";
        (void) snprintf(buf, SPAN_TEXT_MAX, n < 1e18 ? "%.0f" : "%.3g", n);
        return buf;
}

static const char *percent_text(double n, char buf[static SPAN_TEXT_MAX]) {
        if (!(n >= 0 && n < 1e9))
                return "-";
        (void) snprintf(buf, SPAN_TEXT_MAX, "%.0f %%", 100 * n);
        return buf;
}

static const struct {
        const char *name;
        const char *(*text)(double n, char buf[static SPAN_TEXT_MAX]);
} kinds[] = {
        { "count", count_text },     { "percent", percent_text }, { "bytes", bytes_text },
        { "bits", bits_text },       { "span", short_span_text }, { "long", span_text },
};

static const char *time_text(const json_t *v, char buf[static CLOCK_TEXT_MAX]) {
        return json_integer_value(v) > 0 ? clock_text((usec_t) json_integer_value(v), buf) : "";
}

static const char *kind_text(const struct showing *s, const json_t *v, const char *kind,
                             char buf[static CLOCK_TEXT_MAX]) {
        _Static_assert(CLOCK_TEXT_MAX >= SPAN_TEXT_MAX && CLOCK_TEXT_MAX >= FIELD_TEXT_MAX,
                       "holds any kind");
        double seconds;

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                if (streq(kind, kinds[i].name))
                        return kinds[i].text(value_number(v), buf);
        if (streq(kind, "age")) {
                seconds = -value_left(v, s->now);
                /* A host's clock may be ahead of ours: that is no negative age. */
                return span_text(seconds <= 0 ? 0 : seconds, buf); /* "-0 s" is none either */
        }
        if (streq(kind, "left"))
                return span_text(value_left(v, s->now), buf);
        if (streq(kind, "time"))
                return time_text(v, buf);
        if (streq(kind, "share")) {
                seconds = field_number(s->object, "seconds");
                return percent_text(seconds > 0 ? MIN(value_number(v) / seconds, 1.0) : NAN, buf);
        }
        return value_text(v, buf);
}

/* --- Templates ----------------------------------------------------------------------------------------- */

struct field {
        const json_t *value;
        char operation; /* one of ":?!=>,;^", or 0 */
        char argument[KEY_MAX];
};

/* A key of a template: we wrote it, and it fits. */
static const char *read_word(const char *p, const char *ends, char word[static KEY_MAX]) {
        size_t n = strcspn(p, ends);

        assert(n < KEY_MAX && p[n]);
        memcpy(word, p, n);
        word[n] = '\0';
        return p + n;
}

/* p: behind the brace. Returns what is behind the closing one. */
static const char *read_field(const json_t *o, const char *p, struct field *ret) {
        char key[KEY_MAX];

        for (;; p++) {
                p = read_word(p, ".:?!=>,;^}", key);
                if (key[0])
                        o = json_is_array(o) ? json_array_get(o, strtoul(key, NULL, 10)) :
                                               json_object_get(o, key);
                if (*p != '.')
                        break;
        }
        *ret = (struct field){ .value = o };
        if (*p != '}') {
                ret->operation = *p;
                p = read_word(p + 1, "}", ret->argument);
        }
        return p + 1;
}

static void put_value(const struct field *f, const char *text, FILE *out) {
        int width = atoi(f->argument), free_columns = width - (int) utf8_width(text);

        print_clean(out, text, streq(f->argument, "lines"));
        fprintf(out, "%*s", MAX(free_columns, 0), "");
}

/* out: NULL: only whether it is there. */
static bool show_field(struct showing *s, const struct field *f, FILE *out) {
        char buf[CLOCK_TEXT_MAX];
        const char *text;

        switch (f->operation) {
        case '?':
                return is_there(f->value);
        case '!':
                return !is_there(f->value);
        case '=':
                return streq(value_text(f->value, buf), f->argument);
        case '>':
                return value_number(f->value) > strtod(f->argument, NULL);
        case ',':
        case ';':
                if (out && s->listed)
                        fprintf(out, "%c ", f->operation);
                return true;
        case '^':
                s->listed = s->listed && !out;
                return true;
        }
        text = kind_text(s, f->value, f->argument, buf);
        if (out)
                put_value(f, text, out);
        s->listed = s->listed || (out && *text);
        return *text && !streq(text, "-");
}

static const char *show_choice(struct showing *s, const char *p, FILE *out);

/* Up to the end of this alternative. *ret: whether all it asks for is there. */
static const char *show_part(struct showing *s, const char *p, FILE *out, bool *ret) {
        struct field f;

        *ret = true;
        while (*p && *p != '|' && *p != ']')
                if (*p == '[')
                        p = show_choice(s, p, out);
                else if (*p == '{') {
                        p = read_field(s->object, p + 1, &f);
                        *ret = show_field(s, &f, out) && *ret;
                } else {
                        s->listed = s->listed || out;
                        if (out)
                                fputc(*p, out);
                        p++;
                }
        return p;
}

static const char *show_choice(struct showing *s, const char *p, FILE *out) {
        bool chosen = false, fits;

        do {
                const char *from = p + 1;

                p = show_part(s, from, NULL, &fits);
                if (fits && !chosen && out)
                        (void) show_part(s, from, out, &fits);
                chosen = chosen || fits;
        } while (*p == '|');
        assert(*p == ']');
        return p + 1;
}

void show(FILE *out, const json_t *o, usec_t now, const char *template) {
        struct showing s = { .object = o, .now = now };
        bool all;

        template = show_part(&s, template, out, &all);
        assert(*template == '\0');
}

void show_each(FILE *out, const json_t *list, usec_t now, const char *template) {
        const json_t *o;
        size_t i;

        json_array_foreach(list, i, o)
                show(out, o, now, template);
}

/* --- Tables -------------------------------------------------------------------------------------------- */

json_t *show_named(const json_t *objects) {
        json_t *list = json_array(), *o;
        const char *key;

        /* jansson's iteration wants it writable, and does not write. */
        json_object_foreach((json_t *) (uintptr_t) objects, key, o)
                list = json_list_add(list, json_member_add(json_is_object(o) ? json_copy(o) : json_object(),
                                                           "name", json_string(key)));
        return list;
}

static char *cell_text(const json_t *o, usec_t now, const char *template) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return NULL;
        show(f, o, now, template);
        return memstream_close(f, &text);
}

static int add_row(struct table *t, const json_t *o, usec_t now, const struct column *columns) {
        char *cells[TABLE_COLUMNS_MAX] = { NULL };
        int r = 0;

        for (size_t i = 0; i < t->columns && r == 0; i++) {
                cells[i] = cell_text(o, now, columns[i].cell);
                r = cells[i] ? 0 : -ENOMEM;
        }
        if (r == 0)
                r = table_add(t, (const char *const *) cells);
        for (size_t i = 0; i < t->columns; i++)
                free(cells[i]);
        return r;
}

int show_table(FILE *out, const json_t *list, usec_t now, const struct column *columns, size_t n) {
        _cleanup_table_ struct table t = TABLE_NULL(n);
        const char *titles[TABLE_COLUMNS_MAX];
        const json_t *o;
        size_t i;
        int r;

        assert(n <= TABLE_COLUMNS_MAX);
        for (i = 0; i < n; i++) {
                titles[i] = columns[i].title;
                t.shrinks[i] = columns[i].shrinks;
        }
        r = table_add(&t, titles);
        json_array_foreach(list, i, o)
                if (r == 0)
                        r = add_row(&t, o, now, columns);
        return r < 0 ? r : table_print(&t, out);
}

int show_list(FILE *out, const json_t *list, usec_t now, const struct column *columns, size_t n,
              const char *empty) {
        if (!json_is_array(list))
                return -EPROTO;
        if (json_array_size(list) > 0)
                return show_table(out, list, now, columns, n);
        fputs(empty, out);
        return 0;
}
