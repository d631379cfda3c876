/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "points.h"

int store_list_hosts(struct store *s, const char *name,
                     int (*visit)(const struct store_host *h, void *userdata), void *userdata) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = store_query(s, ST_LIST_HOSTS, BIND(TEXT(name)), &q);

        while (store_next(q, &r)) {
                struct store_host h = {
                        .id = sqlite3_column_int64(q, 0),
                        .name = column_text(q, 1),
                        .slice = column_text(q, 2),
                        .worker_id = column_int(q, 3),
                        .accelerator_type = column_text(q, 4),
                        .version = column_text(q, 5),
                        .boot_id = column_text(q, 6),
                        .state = column_text(q, 7),
                        .reasons = column_text(q, 8),
                        .run = column_text(q, 9),
                        .step = column_int(q, 10),
                        .first_seen = (usec_t) sqlite3_column_int64(q, 11),
                        .last_seen = (usec_t) sqlite3_column_int64(q, 12),
                        .newest = (usec_t) sqlite3_column_int64(q, 13),
                };

                r = visit(&h, userdata);
        }
        return r;
}

/* --- Series ---------------------------------------------------------------------------------------- */

int store_list_metrics(struct store *s, int64_t host,
                       int (*visit)(const struct store_value *v, void *userdata), void *userdata) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        _cleanup_points_ struct points p = { 0 };
        _cleanup_free_ char *ids = NULL;
        int r = points_read_latest(s, host, &p);

        if (r < 0 || p.n == 0)
                return r;
        ids = points_ids(&p.items->series, p.n, sizeof(*p.items));
        r = ids ? store_query(s, ST_SERIES_SHOW, BIND(TEXT(ids)), &q) : -ENOMEM;
        while (store_next(q, &r)) {
                const struct stored_sample *last = points_find(&p, sqlite3_column_int64(q, 0));
                struct store_value v;

                assert(last); /* nothing else was asked for */
                v = (struct store_value) {
                        .metric = { .name = column_text(q, 1),
                                    .attributes = column_text(q, 2),
                                    .service = column_text(q, 3),
                                    .unit = column_text(q, 4),
                                    .is_int = last->is_int,
                                    .i = last->i,
                                    .d = last->d,
                                    .time = (usec_t) last->ms * USEC_PER_MSEC },
                };

                r = visit(&v, userdata);
        }
        return r;
}

/* --- Their past ------------------------------------------------------------------------------------ */

/* Those of the wanted series, in the order of rows. 1: there are more than the filter's limit. */
static int find_points(struct store *s, const struct store_series_filter *f, int64_t host,
                       const struct points *wanted, struct points *found) {
        int64_t since = (int64_t) (f->since / USEC_PER_MSEC), until = (int64_t) (f->until / USEC_PER_MSEC);
        _cleanup_points_ struct points row = { 0 };
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = store_query(s, ST_ROWS,
                            BIND(INT(points_id(host, since - POINTS_ROW_SPAN_MS) - 1),
                                 INT(points_id(host, until + POINTS_ROW_SPAN_MS))),
                            &q);

        while (r >= 0 && (r = store_row(q)) > 0) {
                row.n = 0;
                r = points_collect(s, &row, q);
                for (size_t i = 0; r == 0 && i < row.n; i++) {
                        struct stored_sample *one = &row.items[i];

                        if (one->ms < since || one->ms >= until || !points_find(wanted, one->series))
                                continue;
                        if (found->n >= f->limit)
                                return 1;
                        r = points_add(found, one);
                }
        }
        return r;
}

/* Those of this name that the host has. */
static int find_wanted(struct store *s, int64_t host, const char *name, struct points *ret) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        struct host_series *h;
        int r = points_host(s, host, &h);

        if (r == 0)
                r = store_query(s, ST_SERIES_NAMED, BIND(TEXT(name)), &q);
        while (r >= 0 && (r = store_row(q)) > 0) {
                const struct stored_sample one = { .series = sqlite3_column_int64(q, 0) };

                if (host_series_has(h, one.series))
                        r = points_add(ret, &one);
        }
        points_latest(ret); /* sorts */
        return r;
}

static int visit_past(struct store *s, const char *name, const struct points *wanted, struct points *found,
                      int (*visit)(const struct store_past *p, void *userdata), void *userdata) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = store_query(s, ST_SERIES_NAMED, BIND(TEXT(name)), &q);

        points_sort(found);
        while (store_next(q, &r)) {
                int64_t series = sqlite3_column_int64(q, 0);

                if (!points_find(wanted, series))
                        continue;
                r = visit(&(struct store_past) { .name = name,
                                                .attributes = column_text(q, 1),
                                                .service = column_text(q, 2),
                                                .unit = column_text(q, 3) },
                          userdata);
                for (size_t k = 0; r == 0 && k < found->n; k++) {
                        const struct stored_sample *one = &found->items[k];

                        if (one->series == series)
                                r = visit(&(struct store_past) { .is_point = true,
                                                                .time = (usec_t) one->ms * USEC_PER_MSEC,
                                                                .is_int = one->is_int,
                                                                .i = one->i,
                                                                .d = one->d },
                                          userdata);
                }
        }
        return r;
}

int store_list_past(struct store *s, const struct store_series_filter *f,
                    int (*visit)(const struct store_past *p, void *userdata), void *userdata,
                    bool *ret_cut) {
        _cleanup_points_ struct points ids = { 0 }, found = { 0 };
        int64_t host;
        int r = store_ask(s, ST_HOST_FIND, BIND(TEXT(f->host)), &host, NULL);

        if (r <= 0)
                return r < 0 ? r : -ENOENT;
        r = find_wanted(s, host, f->name, &ids);
        if (r == 0)
                r = find_points(s, f, host, &ids, &found);
        if (r < 0)
                return r;
        *ret_cut = r > 0;
        return visit_past(s, f->name, &ids, &found, visit, userdata);
}
