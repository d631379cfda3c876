/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Points of hosts as rows of table samples. A row's id is level << 61 | host << 41 | milliseconds since
 * 2020: rows of a host and level lie side by side in the order of time, and no index is needed. Two rows of
 * the same millisecond take the next free number, and their points are that much later. Inside the room
 * only.
 */
#include "statement.h"

enum level { LEVEL_RAW, LEVEL_MINUTE, LEVEL_TEN_MINUTES, _LEVEL_MAX };

/* How long one row of a level spans; points of a row lie within it of the row's time. */
#define POINTS_ROW_SPAN_MS 60000
#define POINTS_EPOCH_MS    INT64_C(1577836800000) /* 2020-01-01T00:00:00Z */

int64_t points_id(enum level l, int64_t host, int64_t ms);
int64_t points_ms(int64_t id);

/* Samples of a host collected out of many rows. */
struct points {
        struct sample *items;
        size_t n, size;
};
void points_clear(struct points *p);
#define _cleanup_points_ _cleanup_(points_clear)
/* Adds those of one row; what is damaged is left out and counted in s->damaged_rows. -ENOMEM. */
int points_collect(struct store *s, struct points *p, const void *data, size_t len, int64_t base);
/* One summary a series, sorted by series. */
void points_sum(struct points *p);
/* The last one of each series, sorted by series. */
void points_latest(struct points *p);

/* Writes a row where there is room for it; returns its id in ret. */
int points_write(struct store *s, enum level l, int64_t host, struct samples_out *o, int64_t *ret);

/* The latest value of each series of the host: what table latest has and the rows behind it. */
int points_read_latest(struct store *s, int64_t host, struct points *ret, int64_t *ret_through,
                       size_t *ret_rows);
/* Writes what points_read_latest() found, without series that are silent since before `since`. */
int points_fold(struct store *s, int64_t host, int64_t since);

/* The numbers of the host's series, read when they are not known. */
int points_host(struct store *s, int64_t host, struct host_series **ret);
int points_add(struct points *p, const struct sample *one);
/* By series and time. */
void points_sort(struct points *p);
/* Whether there is one of this series in sorted points. */
bool points_find(const struct points *p, int64_t series);
