/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "grow.h"
#include "report.h"
#include "table.h"

/* Marks that turn the reading direction can make a screen say something else. */
static bool turns_direction(const char *text) {
        const unsigned char *p = (const unsigned char *) text;

        return p[0] == 0xe2 && ((p[1] == 0x80 && p[2] >= 0xaa && p[2] <= 0xae) ||
                                (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9));
}

void print_clean(FILE *out, const char *text, bool lines) {
        while (*text) {
                size_t n = turns_direction(text) || (!lines && (*text == '\n' || *text == '\t'))
                                   ? 0
                                   : utf8_character(text);

                if (n > 0)
                        (void) fwrite(text, 1, n, out);
                else
                        (void) fputc('?', out);
                text += MAX(n, (size_t) 1);
        }
}

static char *clean_copy(const char *text) {
        char *copy = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&copy, &size);

        if (!f)
                return NULL;
        print_clean(f, text, false);
        return memstream_close(f, &copy);
}

int table_add(struct table *t, const char *const cells[]) {
        assert(t->columns > 0 && t->columns <= TABLE_COLUMNS_MAX);
        if (grow(&t->cells, &t->size, (t->rows + 1) * t->columns, sizeof(*t->cells)) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < t->columns; i++) {
                const char *text = cells[i] && cells[i][0] ? cells[i] : "-";
                char *copy = clean_copy(text);

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

static void shrink(const struct table *t, size_t widths[static TABLE_COLUMNS_MAX], size_t room) {
        size_t total = 2 * (t->columns - 1);

        for (size_t i = 0; i < t->columns; i++)
                total += widths[i];
        for (; total > room; total--) {
                size_t widest = t->columns;

                for (size_t i = 0; i < t->columns; i++)
                        if (t->shrinks[i] && widths[i] > TABLE_CELL_MIN &&
                            (widest == t->columns || widths[i] > widths[widest]))
                                widest = i;
                if (widest == t->columns)
                        return;
                widths[widest]--;
        }
}

static void measure(const struct table *t, size_t room, size_t widths[static TABLE_COLUMNS_MAX]) {
        for (size_t i = 0; i < t->rows * t->columns; i++) {
                size_t column = i % t->columns,
                       most = column + 1 == t->columns ? SIZE_MAX : TABLE_CELL_MAX;

                widths[column] = MAX(widths[column], MIN(utf8_width(t->cells[i]), most));
        }
        if (room > 0)
                shrink(t, widths, room);
}

/* "" for a cell that says nothing about how well something is. */
static const char *cell_colour(const char *text) {
        static const struct {
                const char *word;
                enum verdict verdict;
        } words[] = {
                { "ok", VERDICT_OK },         { "ready", VERDICT_OK },     { "running", VERDICT_OK },
                { "degraded", VERDICT_WARN }, { "waiting", VERDICT_WARN }, { "BAD", VERDICT_FAIL },
                { "unfit", VERDICT_FAIL },    { "SILENT", VERDICT_FAIL },  { "MISSING", VERDICT_FAIL }
        };

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (streq(text, words[i].word))
                        return report_colour(words[i].verdict);
        return "";
}

static void print_cell(FILE *out, const char *text, size_t width, bool last, bool colour) {
        const char *on = colour ? cell_colour(text) : "";
        size_t wide = utf8_width(text), n = 0, kept = 0;

        if (wide <= width) {
                fprintf(out, "%s%s%s%*s", on, text, *on ? "\033[0m" : "", last ? 0 : (int) (width - wide),
                        "");
                return;
        }
        for (; kept < width; n++) /* up to where the last one that fits begins */
                kept += ((unsigned char) text[n] & 0xc0) != 0x80;
        n--;
        fprintf(out, "%.*s…", (int) n, text);
}

int table_print(const struct table *t, FILE *out) {
        size_t widths[TABLE_COLUMNS_MAX] = { 0 };
        bool colour = report_in_colour(out);

        measure(t, report_width(out), widths);
        for (size_t i = 0; i < t->rows * t->columns; i++) {
                bool last = i % t->columns + 1 == t->columns;

                print_cell(out, t->cells[i], widths[i % t->columns], last, colour);
                fputs(last ? "\n" : "  ", out);
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
