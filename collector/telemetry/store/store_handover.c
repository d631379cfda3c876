/* SPDX-License-Identifier: Apache-2.0 */
#include "store_handover.h"

#include "grow.h"
#include "points.h"

/* One host does not hold up the others with its backlog. */
#define ROWS_OF_HOST 32

void store_hand_over(struct store *s, bool on) {
        s->hands_over = on;
}

void handover_clear(struct handover *h) {
        free(h->rows);
        free(h->points);
        *h = (struct handover) { 0 };
}

int handover_add(struct handover *h, const struct handed_point *p) {
        if (grow(&h->points, &h->size, h->n + 1, sizeof(*h->points)) < 0)
                return -ENOMEM;
        h->points[h->n++] = *p;
        return 0;
}

/* The row that q is at. One that retention has removed meanwhile has no points. */
static int take_row(struct store *s, struct handover *h, sqlite3_stmt *q) {
        int64_t row = sqlite3_column_int64(q, 0);
        _cleanup_points_ struct points p = { 0 };
        int r = 0;

        if (grow(&h->rows, &h->size_rows, h->n_rows + 1, sizeof(*h->rows)) < 0)
                return -ENOMEM;
        h->rows[h->n_rows++] = row;
        if (sqlite3_column_type(q, 1) == SQLITE_NULL)
                s->expired++;
        else
                r = points_collect(s, &p, q);
        for (size_t i = 0; r == 0 && i < p.n; i++)
                r = handover_add(h, &(struct handed_point){ .host = points_host_of(row),
                                                           .series = p.items[i].series,
                                                           .ms = p.items[i].ms,
                                                           .is_int = p.items[i].is_int,
                                                           .i = p.items[i].i,
                                                           .d = p.items[i].d });
        h->through = row;
        return r;
}

/* Some rows of the next host. */
static int take_host(struct store *s, struct handover *h, size_t rows_max, size_t points_max) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int64_t host = 0;
        size_t n = 0;
        int r = store_query(s, ST_HANDOVER, BIND(INT(h->through), INT(ROWS_OF_HOST)), &q);

        while (r >= 0 && h->n_rows < rows_max && h->n < points_max && (r = store_row(q)) > 0) {
                int64_t its = points_host_of(sqlite3_column_int64(q, 0));

                if (host > 0 && its != host)
                        return 0;
                host = its;
                r = take_row(s, h, q);
                n++;
        }
        if (n == ROWS_OF_HOST)
                h->through = points_id(host, INT64_MAX);
        h->end = r == 0 && host == 0;
        return MIN(r, 0);
}

int store_read_handover(struct store *s, int64_t after, size_t rows_max, size_t points_max,
                        struct handover *ret) {
        int r = 0;

        ret->n = ret->n_rows = 0;
        ret->through = after;
        ret->end = false;
        while (r == 0 && !ret->end && ret->n_rows < rows_max && ret->n < points_max)
                r = take_host(s, ret, rows_max, points_max);
        if (r < 0)
                ret->n = ret->n_rows = 0;
        return r;
}

int store_forget_handover(struct store *s, const struct handover *h) {
        int r;

        if (h->n_rows == 0)
                return 0;
        r = store_begin(s);
        for (size_t i = 0; r == 0 && i < h->n_rows; i++)
                r = store_run(s, ST_HANDOVER_DELETE, BIND(INT(h->rows[i])));
        return store_finish(s, r, NULL);
}

/* --- Whose they are -------------------------------------------------------------------------------- */

static int by_host_series_time(const void *a, const void *b) {
        const struct handed_point *x = a, *y = b;

        return COMPARE(x->host, y->host) ?: COMPARE(x->series, y->series) ?: COMPARE(x->ms, y->ms);
}

/* Sorted, and of two points of one series at one time the first alone. */
static void sort_points(struct handover *h) {
        size_t n = 0;

        if (h->n > 0)
                qsort(h->points, h->n, sizeof(*h->points), by_host_series_time);
        for (size_t i = 0; i < h->n; i++)
                if (n == 0 || by_host_series_time(&h->points[n - 1], &h->points[i]) != 0)
                        h->points[n++] = h->points[i];
        h->n = n;
}

/* Where the series of the point at begin ends, before end. */
static size_t end_of_series(const struct handed_point *p, size_t begin, size_t end) {
        size_t i = begin;

        while (i < end && p[i].series == p[begin].series)
                i++;
        return i;
}

/* The points of a series among those of a host; NULL: none. */
static const struct handed_point *points_of_series(const struct handed_point *p, size_t n, int64_t series) {
        size_t at = SORTED_PLACE(n, i, p[i].series < series);

        return at < n && p[at].series == series ? &p[at] : NULL;
}

static int show_host(struct store *s, const struct handed_point *p, size_t n,
                     int (*visit)(const struct handed_series *one, void *userdata), void *userdata) {
        _cleanup_query_ sqlite3_stmt *host = NULL, *q = NULL;
        _cleanup_free_ char *list = points_ids(&p->series, n, sizeof(*p));
        int r;

        if (!list)
                return -ENOMEM;
        r = store_query(s, ST_HANDOVER_HOST, BIND(INT(p->host)), &host);
        if (r < 0 || (r = store_row(host)) <= 0)
                return r;
        r = store_query(s, ST_SERIES_SHOW, BIND(TEXT(list)), &q);
        while (r >= 0 && (r = store_row(q)) > 0) {
                const struct handed_point *points = points_of_series(p, n, sqlite3_column_int64(q, 0));
                const struct handed_series one = {
                        .host = column_text(host, 0),
                        .slice = column_text(host, 1),
                        .worker_id = column_int(host, 2),
                        .accelerator_type = column_text(host, 3),
                        .version = column_text(host, 4),
                        .name = column_text(q, 1),
                        .attributes = column_text(q, 2),
                        .service = column_text(q, 3),
                        .unit = column_text(q, 4),
                        .points = points,
                        .n = points ? end_of_series(points, 0, (size_t) (p + n - points)) : 0,
                };

                r = points ? visit(&one, userdata) : 0;
                if (r < 0)
                        return r;
        }
        return r;
}

int store_show_handover(struct store *s, struct handover *h,
                        int (*visit)(const struct handed_series *one, void *userdata), void *userdata) {
        int r = 0;

        sort_points(h);
        for (size_t begin = 0, end; r == 0 && begin < h->n; begin = end) {
                for (end = begin; end < h->n && h->points[end].host == h->points[begin].host;)
                        end++;
                r = show_host(s, h->points + begin, end - begin, visit, userdata);
        }
        return r;
}

int store_handover_state(struct store *s, struct handover_state *ret) {
        int64_t n = 0;
        int r = store_ask(s, ST_HANDOVER_COUNT, NULL, 0, &n, NULL);

        if (r < 0)
                return r;
        *ret = (struct handover_state) { .waiting = (uint64_t) n, .expired = s->expired };
        return 0;
}

/* --- Events and lines ------------------------------------------------------------------------------ */

static const char *const positions[_HANDED_MAX] = { [HANDED_EVENTS] = "handed_events",
                                                    [HANDED_LINES] = "handed_lines" };

int store_set_handed(struct store *s, enum handed_records what, int64_t id) {
        int r = store_begin(s);

        if (r == 0)
                r = store_run(s, ST_HANDED_PUT, BIND(TEXT(positions[what]), INT(id)));
        if (r == 0)
                r = store_commit(s);
        store_rollback(s);
        return r;
}

int store_handed(struct store *s, enum handed_records what, int64_t *ret) {
        int64_t last = 0;
        int r = store_ask(s, ST_HANDED, BIND(TEXT(positions[what])), ret, NULL);

        if (r != 0)
                return MIN(r, 0);
        r = store_ask(s, what == HANDED_EVENTS ? ST_EVENT_LAST : ST_LINE_LAST, NULL, 0, &last, NULL);
        if (r >= 0)
                r = store_set_handed(s, what, last);
        if (r == 0)
                *ret = last;
        return r;
}

int store_records_waiting(struct store *s, enum handed_records what, uint64_t *ret) {
        int64_t position, n = 0;
        int r = store_ask(s, ST_HANDED, BIND(TEXT(positions[what])), &position, NULL);

        if (r > 0)
                r = store_ask(s, what == HANDED_EVENTS ? ST_EVENTS_BEHIND : ST_LINES_BEHIND,
                              BIND(INT(position)), &n, NULL);
        if (r < 0)
                return r;
        *ret = (uint64_t) MAX(n, 0);
        return 0;
}
