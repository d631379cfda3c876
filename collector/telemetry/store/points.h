/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Points of hosts as rows of table samples. A row's id is host << 41 | milliseconds since 2020: rows of a
 * host lie side by side in the order of time, and no index is needed. Two rows of the same millisecond take
 * the next free number, and their points are that much later. Table latest has the last value of each series
 * of a host in its rows up to "through". Inside the room only.
 */
#include "statement.h"

/* Points of a row lie within this of the row's time. */
#define POINTS_ROW_SPAN_MS 60000
#define POINTS_EPOCH_MS    INT64_C(1577836800000) /* 2020-01-01T00:00:00Z */

int64_t points_id(int64_t host, int64_t ms);
int64_t points_ms(int64_t id);
int64_t points_host_of(int64_t id);

void points_clear(struct points *p);
#define _cleanup_points_ _cleanup_(points_clear)
int points_add(struct points *p, const struct stored_sample *one);
/*
 * Adds those of the row (id, data) that q is at; what is damaged is left out and counted in s->damaged_rows.
 * -ENOMEM.
 */
int points_collect(struct store *s, struct points *p, sqlite3_stmt *q);
/* By series and time. */
void points_sort(struct points *p);
/* The last one of each series, sorted by series. */
void points_latest(struct points *p);
/* One of this series in sorted points; NULL: there is none. */
const struct stored_sample *points_find(const struct points *p, int64_t series);

/*
 * "[1,2,3]": the sorted numbers of series, which lie step bytes apart, each once; a list that SQLite can
 * look up in. NULL: out of memory.
 */
char *points_ids(const int64_t *first, size_t n, size_t step);

/* The latest value of each series of the host: what table latest has and the rows behind it. */
int points_read_latest(struct store *s, int64_t host, struct points *ret);
/* Makes table latest of that, without series that are silent since before `since`. */
int points_fold(struct store *s, int64_t host, int64_t since);

/* The numbers of the host's series, read when they are not known. */
int points_host(struct store *s, int64_t host, struct host_series **ret);
