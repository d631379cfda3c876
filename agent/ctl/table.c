/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "table.h"

/* Length of the UTF-8 character at p, or 0 when it is none or a control character (C0, DEL, C1). */
static size_t printable_length(const unsigned char *p) {
        size_t n;

        if (p[0] < 0x80)
                return p[0] >= 0x20 && p[0] != 0x7f;
        n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
        if (p[0] < 0xc2 || p[0] > 0xf4)
                return 0;
        for (size_t i = 1; i < n; i++)
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
        if (p[0] == 0xc2 && p[1] < 0xa0)
                return 0;
        /* Marks that turn the reading direction can make a screen say something else. */
        if (p[0] == 0xe2 && ((p[1] == 0x80 && p[2] >= 0xaa && p[2] <= 0xae) ||
                             (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9)))
                return 0;
        return n;
}

void print_clean(FILE *out, const char *text, bool lines) {
        const unsigned char *p = (const unsigned char *) text;

        while (*p) {
                size_t n = printable_length(p);

                if (n > 0)
                        (void) fwrite(p, 1, n, out);
                else
                        (void) fputc(lines && (*p == '\n' || *p == '\t') ? *p : '?', out);
                p += MAX(n, (size_t) 1);
        }
}

/* A clean copy of text, cut at max characters. */
static char *clean_copy(const char *text, size_t max) {
        const unsigned char *p = (const unsigned char *) text;
        size_t len = strlen(text), to = 0, characters = 0;
        char *copy = malloc(len + sizeof("…"));

        if (!copy)
                return NULL;
        for (; *p; characters++) {
                size_t n = printable_length(p);

                if (characters + 1 >= max && p[MAX(n, (size_t) 1)] != '\0') {
                        memcpy(copy + to, "…", strlen("…"));
                        to += strlen("…");
                        break;
                }
                if (n > 0)
                        memcpy(copy + to, p, n);
                else
                        copy[to] = '?';
                to += MAX(n, (size_t) 1);
                p += MAX(n, (size_t) 1);
        }
        copy[to] = '\0';
        return copy;
}

static size_t width_of(const char *s) {
        size_t n = 0;

        for (; *s; s++)
                n += ((unsigned char) *s & 0xc0) != 0x80;
        return n;
}

int table_add(struct table *t, const char *const cells[]) {
        if (t->rows == t->size) {
                size_t size = MAX(t->size * 2, (size_t) 16);
                char **grown = reallocarray(t->cells, size * t->columns, sizeof(*grown));

                if (!grown)
                        return -ENOMEM;
                t->cells = grown;
                t->size = size;
        }
        for (size_t i = 0; i < t->columns; i++) {
                const char *text = cells[i] && cells[i][0] ? cells[i] : "-";
                char *copy = clean_copy(text, i + 1 == t->columns ? SIZE_MAX : TABLE_CELL_MAX);

                if (!copy) {
                        while (i-- > 0)
                                free(t->cells[t->rows * t->columns + i]);
                        return -ENOMEM;
                }
                t->cells[t->rows * t->columns + i] = copy;
        }
        t->rows++;
        return 0;
}

int table_print(const struct table *t, FILE *out) {
        size_t widths[TABLE_COLUMNS_MAX] = { 0 };

        for (size_t i = 0; i < t->rows * t->columns; i++)
                widths[i % t->columns] = MAX(widths[i % t->columns], width_of(t->cells[i]));
        for (size_t i = 0; i < t->rows * t->columns; i++) {
                bool last = i % t->columns + 1 == t->columns;

                fprintf(out, "%s%*s%s", t->cells[i],
                        last ? 0 : (int) (widths[i % t->columns] - width_of(t->cells[i])), "",
                        last ? "\n" : "  ");
        }
        return fflush(out) == EOF ? -EIO : 0;
}

void table_clear(struct table *t) {
        for (size_t i = 0; i < t->rows * t->columns; i++)
                free(t->cells[i]);
        free(t->cells);
        *t = TABLE_NULL(t->columns);
}

const char *span_text(double seconds, char buf[static SPAN_TEXT_MAX]) {
        static const struct {
                double size;
                const char *unit;
        } units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };
        size_t i = 0;

        if (!isfinite(seconds) || seconds < 0 || seconds > 1e9)
                return strcpy(buf, "-");
        while (i + 1 < ELEMENTSOF(units) && seconds < 2 * units[i].size) /* 119 s says more than 1 min */
                i++;
        (void) snprintf(buf, SPAN_TEXT_MAX, "%.0f %s", floor(seconds / units[i].size), units[i].unit);
        return buf;
}

const char *short_span_text(double seconds, char buf[static SPAN_TEXT_MAX]) {
        if (!isfinite(seconds) || seconds < 0 || seconds > 1e9)
                return strcpy(buf, "-");
        if (seconds < 1e-3)
                (void) snprintf(buf, SPAN_TEXT_MAX, "%.0f us", seconds * 1e6);
        else if (seconds < 1)
                (void) snprintf(buf, SPAN_TEXT_MAX, "%.3g ms", seconds * 1e3);
        else
                (void) snprintf(buf, SPAN_TEXT_MAX, "%.3g s", seconds);
        return buf;
}

void print_shell_assignment(FILE *out, const char *assignment) {
        static const char plain[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=,./:@%";
        const char *value = strchr(assignment, '=');

        if (!value || value[1 + strspn(value + 1, plain)] == '\0') {
                fputs(assignment, out);
                fputc('\n', out);
                return;
        }
        fprintf(out, "%.*s'", (int) (value + 1 - assignment), assignment);
        for (const char *p = value + 1; *p; p++)
                if (*p == '\'')
                        fputs("'\\''", out);
                else
                        fputc(*p, out);
        fputs("'\n", out);
}
