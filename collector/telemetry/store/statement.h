/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The prepared statements of the store and how values go in. Inside the room only.
 */
#include <sqlite3.h>

#include "samples.h"
#include "series.h"
#include "store.h"

enum statement {
#define STATEMENT(name, text) name,
#include "statements.def"
#undef STATEMENT
        _ST_MAX,
};

/* Which index an events query walks: a filter that names a host must not read everybody's events. */
enum event_index { BY_NOTHING, BY_HOST, BY_NAME, BY_SLICE };

/* Samples of a host collected out of many rows: points.h. */
struct points {
        struct stored_sample *items;
        size_t n, size;
};

struct store {
        sqlite3 *db;
        sqlite3_stmt *statements[_ST_MAX];
        char path[256];
        struct series series;
        bool committed;   /* there is no transaction to be undone */
        uint32_t marked;  /* series_mark() of the part */
        int64_t row_host; /* whose points are in row, not written yet; 0: nobody's */
        struct samples_out row;
        unsigned rows, parts; /* of points, of runs: begun in this part of the transaction */
        struct points late; /* of rows that are written, and that table latest lacks; of this host: */
        int64_t late_host;
        struct tending {
                int64_t host;      /* the one at hand; its work goes on in the next turn */
                int64_t free_host; /* a number below the highest that no host has; 0: none is known */
                int64_t oldest_ms; /* the first row of all hosts in this round */
                usec_t kept;       /* up to when it was tended, in the database */
                double squeeze;    /* what RetainBytes leaves of the age, 0 … 1 */
                unsigned turns;    /* that the host at hand had in a row */
                uint64_t ceiling;  /* bytes; 0: not known */
                bool flooded, full; /* half as much again as the ceiling; twice as much */
                bool behind;       /* the last piece left much to do */
                int64_t swept;     /* the last series that was looked at whether it is anybody's */
        } tending;
        uint64_t damaged_rows, spread;
        bool hands_over;   /* rows of points are noted in table handover */
        uint64_t expired;  /* of those, that retention took first */
};

struct bind {
        enum { BIND_NULL, BIND_INT, BIND_TEXT, BIND_BLOB } type;
        int64_t i;        /* of a blob: its length */
        const char *text; /* borrowed until the statement is reset */
        const void *blob;
};
#define INT(v)     ((struct bind) { .type = BIND_INT, .i = (v) })
#define BLOB(p, n) ((struct bind) { .type = BIND_BLOB, .blob = (p), .i = (int64_t) (n) })
#define TEXT(v)    ((struct bind) { .type = BIND_TEXT, .text = (v) }) /* NULL is NULL */
#define TIME(v)    INT(time_to_sql(v))
#define KNOWN(v)   ((struct bind) { .type = (v) < 0 ? BIND_NULL : BIND_INT, .i = (v) }) /* -1 is NULL */
/* Values for ?1, ?2, … */
#define BIND(...) (const struct bind[]) { __VA_ARGS__ }, ELEMENTSOF(((const struct bind[]) { __VA_ARGS__ }))

static inline int64_t time_to_sql(usec_t t) {
        return (int64_t) MIN(t, (usec_t) INT64_MAX);
}

/*
 * Makes or checks the schema of an open database: 0; -ENOTRECOVERABLE with a sentence in why; -EUCLEAN: an
 * older schema; or SQLite's -errno (why untouched).
 */
int schema_prepare(struct store *s, const char *path, char why[static 256]);
/* -errno of SQLite's answer; 0 of SQLITE_OK, SQLITE_ROW and SQLITE_DONE. */
int sqlite_errno(int rc);
int statements_prepare(struct store *s);
void statements_finalize(struct store *s);

/* Runs a statement that answers nothing. */
int store_run(struct store *s, enum statement st, const struct bind *values, size_t n);
/* Runs a statement that answers at most one row of at most two numbers. 1: there is one; 0: none. ret_b may
 * be NULL. */
int store_ask(struct store *s, enum statement st, const struct bind *values, size_t n, int64_t *ret_a,
              int64_t *ret_b);
/* Begins a statement with many rows: go through them by store_next(), and end it with store_end(). */
int store_query(struct store *s, enum statement st, const struct bind *values, size_t n, sqlite3_stmt **ret);
/* 1: a row; 0: no more; -errno. */
int store_row(sqlite3_stmt *q);
/* Whether *r is 0 and there is a row: for a loop that sets *r in each, and ends by what is not 0. *r is then
 * that, 0 behind the last row, or -errno. */
bool store_next(sqlite3_stmt *q, int *r);
void store_end(sqlite3_stmt **q);
#define _cleanup_query_ _cleanup_(store_end)

/* store_logs.c: some of the oldest lines, as long as there are more than `keep` bytes, or any received
 * before. */
int store_drop_lines(struct store *s, uint64_t keep, usec_t before);
/* The same where each counts as STORE_LINE_LEAST bytes: those without a text, or hardly one. */
int store_drop_short_lines(struct store *s, uint64_t keep);

/* store_episodes.c: what is beyond the limits, a little at a time. */
int store_drop_episodes(struct store *s, uint64_t bytes);

/* Columns. NULL is NULL, and -1. */
const char *column_text(sqlite3_stmt *q, int column);
int64_t column_int(sqlite3_stmt *q, int column);
