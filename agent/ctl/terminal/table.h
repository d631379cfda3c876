/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Aligned text for a person: columns as wide as their widest cell, two blanks between, the last one free. On
 * a terminal that is too narrow, columns that may shrink do; there, states have colours (unless NO_COLOR).
 * Whatever comes from elsewhere is made harmless for a terminal: control characters become '?', bad UTF-8
 * too.
 */
#include "base.h"
#include "utf8.h"

#define TABLE_COLUMNS_MAX 10
#define TABLE_CELL_MAX 60 /* characters; a longer cell is cut with "…", but not the last column's */
#define TABLE_CELL_MIN 12 /* no column shrinks below */

struct table {
        size_t columns;
        char **cells; /* rows * columns, and room for size */
        size_t rows, size;
        bool shrinks[TABLE_COLUMNS_MAX];
};
#define TABLE_NULL(n) ((struct table) { .columns = (n) })

/* Adds one row of t->columns cells (copied; NULL and "" are shown as "-"). -ENOMEM. */
int table_add(struct table *t, const char *const cells[]);
int table_print(const struct table *t, FILE *out);
void table_clear(struct table *t);
#define _cleanup_table_ _cleanup_(table_clear)

/* Writes text with control characters replaced; newlines and tabs are kept when lines is true. */
void print_clean(FILE *out, const char *text, bool lines);

/* "9 s", "3 min", "5 h", "2 d"; "-" when seconds is negative or no number. */
#define SPAN_TEXT_MAX 24
const char *span_text(double seconds, char buf[static SPAN_TEXT_MAX]);
/* "85 us", "1.2 ms", "2.5 s", with three digits; "-" when seconds is negative or no number. */
const char *short_span_text(double seconds, char buf[static SPAN_TEXT_MAX]);

/* Prints one assignment so that a shell reads it back: KEY='a b'. */
void print_shell_assignment(FILE *out, const char *assignment);
