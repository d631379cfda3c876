/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "metrics_text.h"

/* UCUM units as Prometheus spells them; a unit in braces ({packet}) is a remark and gives no suffix. */
static const char *unit_suffix(const struct sample *m) {
        static const struct {
                const char *unit, *suffix;
        } table[] = {
                { "By", "_bytes" },
                { "s", "_seconds" },
                { "ms", "_milliseconds" },
                { "Hz", "_hertz" },
                { "Cel", "_celsius" },
                { "W", "_watts" },
                { "J", "_joules" },
                { "%", "_percent" },
                { "bit/s", "_bits_per_second" },
                { "By/s", "_bytes_per_second" },
        };

        if (!m->unit)
                return "";
        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (streq(table[i].unit, m->unit))
                        return table[i].suffix;
        return streq(m->unit, "1") && m->kind == SAMPLE_GAUGE ? "_ratio" : "";
}

static bool endswith(const char *s, const char *suffix) {
        size_t a = strlen(s), b = strlen(suffix);

        return a >= b && streq(s + a - b, suffix);
}

static void underscore(char *s) {
        for (; *s; s++)
                if (!isalnum((unsigned char) *s))
                        *s = '_';
}

int metric_name(const struct sample *m, char buf[static METRIC_NAME_MAX]) {
        const char *suffix = unit_suffix(m), *total = m->kind == SAMPLE_COUNTER ? "_total" : "";
        char name[METRIC_NAME_MAX];
        int n;

        if (strlen(m->name) >= sizeof(name))
                return -ENAMETOOLONG;
        (void) snprintf(name, sizeof(name), "%s", m->name);
        underscore(name);
        n = snprintf(buf, METRIC_NAME_MAX, "%s%s%s", name, endswith(name, suffix) ? "" : suffix,
                     endswith(name, total) ? "" : total);
        return n < METRIC_NAME_MAX ? 0 : -ENAMETOOLONG;
}

static int by_name(const void *a, const void *b) {
        const struct sample_slot *const *x = a, *const *y = b;
        int r = strcmp((*x)->sample.name, (*y)->sample.name);

        return r != 0 ? r : (*x > *y) - (*x < *y);
}

static void print_escaped(FILE *f, const char *s, bool quote) {
        for (; *s; s++)
                if (*s == '\\')
                        fputs("\\\\", f);
                else if (*s == '\n')
                        fputs("\\n", f);
                else if (*s == '"' && quote)
                        fputs("\\\"", f);
                else
                        fputc(*s, f);
}

static void print_sample(FILE *f, const char *name, const struct sample *m) {
        const char *separator = "{";

        fputs(name, f);
        for (size_t k = 0; k < ELEMENTSOF(m->keys); k++) {
                char key[METRIC_NAME_MAX];

                if (!m->keys[k])
                        continue;
                (void) snprintf(key, sizeof(key), "%s", m->keys[k]);
                underscore(key);
                fprintf(f, "%s%s=\"", separator, key);
                print_escaped(f, m->values[k], true);
                fputc('"', f);
                separator = ",";
        }
        if (*separator == ',')
                fputc('}', f);
        if (m->is_int)
                fprintf(f, " %" PRIi64 "\n", m->i);
        else
                fprintf(f, " %.17g\n", m->d);
}

static int print_all(FILE *f, const struct sample_slot **sorted, size_t n) {
        const char *family = NULL;

        for (size_t i = 0; i < n; i++) {
                const struct sample *m = &sorted[i]->sample;
                char name[METRIC_NAME_MAX];

                if (metric_name(m, name) < 0)
                        continue; /* names are our own: a test holds them */
                if (!family || !streq(family, m->name)) {
                        fprintf(f, "# HELP %s ", name);
                        print_escaped(f, m->description ? m->description : m->name, false);
                        fprintf(f, "\n# TYPE %s %s\n", name,
                                m->kind == SAMPLE_COUNTER ? "counter" : "gauge");
                        family = m->name;
                }
                print_sample(f, name, m);
        }
        return ferror(f) ? -ENOMEM : 0;
}

int metrics_text(const struct sample_store *s, char **ret, size_t *ret_len) {
        _cleanup_free_ const struct sample_slot **sorted = NULL;
        _cleanup_free_ char *text = NULL;
        size_t len = 0;
        FILE *f;
        int r;

        sorted = calloc(MAX(s->n, (size_t) 1), sizeof(*sorted));
        if (!sorted)
                return -ENOMEM;
        for (size_t i = 0; i < s->n; i++)
                sorted[i] = &s->slots[i];
        qsort(sorted, s->n, sizeof(*sorted), by_name);
        f = open_memstream(&text, &len);
        if (!f)
                return -ENOMEM;
        r = print_all(f, sorted, s->n);
        if (fclose(f) != 0 && r >= 0)
                r = -ENOMEM;
        if (r < 0)
                return r;
        *ret = TAKE_PTR(text);
        *ret_len = len;
        return 0;
}
