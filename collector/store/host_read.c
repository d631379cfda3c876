/* SPDX-License-Identifier: Apache-2.0 */
#include "points.h"

int store_list_hosts(struct store *s, const char *name,
                     int (*visit)(const struct store_host *h, void *userdata), void *userdata) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r;

        r = store_query(s, ST_LIST_HOSTS, BIND(TEXT(name)), &q);
        if (r < 0)
                return r;
        while ((r = store_row(q)) > 0) {
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
                        .job = column_text(q, 9),
                        .step = column_int(q, 10),
                        .first_seen = (usec_t) sqlite3_column_int64(q, 11),
                        .last_seen = (usec_t) sqlite3_column_int64(q, 12),
                        .newest = (usec_t) sqlite3_column_int64(q, 13),
                };

                r = visit(&h, userdata);
                if (r != 0)
                        return r;
        }
        return r;
}

/* --- Series ---------------------------------------------------------------------------------- */

struct named { /* one series with its texts, malloc'ed */
        struct sample last;
        char *name, *attributes, *service, *unit;
};

struct naming {
        struct named *items;
        size_t n;
};

static void naming_clear(struct naming *l) {
        for (size_t i = 0; i < l->n; i++) {
                free(l->items[i].name);
                free(l->items[i].attributes);
                free(l->items[i].service);
                free(l->items[i].unit);
        }
        free(l->items);
}

static char *copy_of(sqlite3_stmt *q, int column) {
        const char *text = column_text(q, column);

        return strdup(text ?: "");
}

/* A series without its row in table series is left out: it cannot be named. */
static int name_one(struct store *s, struct naming *l, const struct sample *one) {
        struct named *n = &l->items[l->n];
        sqlite3_stmt *q = NULL;
        int r;

        r = store_query(s, ST_SERIES_SHOW, BIND(INT(one->series)), &q);
        if (r == 0 && (r = store_row(q)) > 0) {
                *n = (struct named) { *one, copy_of(q, 0), copy_of(q, 1), copy_of(q, 2), copy_of(q, 3) };
                l->n++;
                r = n->name && n->attributes && n->service && n->unit ? 0 : -ENOMEM;
        }
        store_end(&q);
        return r;
}

static int by_name(const void *a, const void *b) {
        const struct named *x = a, *y = b;
        int r;

        r = strcmp(x->name, y->name);
        if (r == 0)
                r = strcmp(x->attributes, y->attributes);
        return r ?: strcmp(x->service, y->service);
}

int store_list_metrics(struct store *s, int64_t host,
                       int (*visit)(const struct store_value *v, void *userdata), void *userdata) {
        _cleanup_(naming_clear) struct naming l = { 0 };
        _cleanup_points_ struct points p = { 0 };
        int r;

        r = points_read_latest(s, host, &p);
        if (r < 0 || p.n == 0)
                return r;
        l.items = calloc(p.n, sizeof(*l.items));
        if (!l.items)
                return -ENOMEM;
        for (size_t i = 0; r == 0 && i < p.n; i++)
                r = name_one(s, &l, &p.items[i]);
        if (r < 0)
                return r;
        qsort(l.items, l.n, sizeof(*l.items), by_name);
        for (size_t i = 0; r == 0 && i < l.n; i++) {
                const struct named *n = &l.items[i];
                struct store_value v = {
                        .metric = { .name = n->name,
                                    .attributes = n->attributes,
                                    .service = n->service,
                                    .unit = n->unit,
                                    .is_int = n->last.is_int,
                                    .i = n->last.i,
                                    .d = n->last.d,
                                    .time = (usec_t) n->last.ms * USEC_PER_MSEC },
                };

                r = visit(&v, userdata);
        }
        return r;
}

/* --- Their past ------------------------------------------------------------------------------ */

/* Those of the wanted series, in the order of rows. 1: there are more than the filter's limit. */
static int find_points(struct store *s, const struct store_series_filter *f, int64_t host,
                       const struct points *wanted, struct points *found) {
        int64_t since = (int64_t) (f->since / USEC_PER_MSEC), until = (int64_t) (f->until / USEC_PER_MSEC);
        _cleanup_points_ struct points row = { 0 };
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r;

        r = store_query(s, ST_ROWS,
                        BIND(INT(points_id(host, since - POINTS_ROW_SPAN_MS) - 1),
                             INT(points_id(host, until + POINTS_ROW_SPAN_MS))),
                        &q);
        while (r >= 0 && (r = store_row(q)) > 0) {
                row.n = 0;
                r = points_collect(s, &row, q);
                for (size_t i = 0; r == 0 && i < row.n; i++) {
                        struct sample *one = &row.items[i];

                        if (one->ms < since || one->ms >= until || !points_find(wanted, one->series))
                                continue;
                        if (found->n >= f->limit)
                                return 1;
                        r = points_add(found, one);
                }
        }
        return r;
}

static int find_wanted(struct store *s, int64_t host, const char *name, struct naming *l,
                       struct points *ids) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        struct host_series *h;
        int r;

        r = points_host(s, host, &h);
        if (r == 0)
                r = store_query(s, ST_SERIES_NAMED, BIND(TEXT(name)), &q);
        while (r >= 0 && (r = store_row(q)) > 0) {
                struct sample one = { .series = sqlite3_column_int64(q, 0) };
                struct named *more, *n;

                if (!host_series_has(h, one.series))
                        continue;
                more = realloc(l->items, (l->n + 1) * sizeof(*more));
                if (!more)
                        return -ENOMEM;
                l->items = more;
                n = &more[l->n++];
                *n = (struct named) { one, strdup(name), copy_of(q, 1), copy_of(q, 2), copy_of(q, 3) };
                r = n->name && n->attributes && n->service && n->unit ? points_add(ids, &one) : -ENOMEM;
        }
        if (r == 0)
                points_latest(ids); /* sorts */
        return r;
}

static int tell(const struct naming *l, struct points *found,
                int (*visit)(const struct store_past *p, void *userdata), void *userdata) {
        int r = 0;

        points_sort(found);
        for (size_t i = 0; r == 0 && i < l->n; i++) {
                const struct named *n = &l->items[i];

                r = visit(&(struct store_past) { .name = n->name,
                                                .attributes = n->attributes,
                                                .service = n->service,
                                                .unit = n->unit },
                          userdata);
                for (size_t k = 0; r == 0 && k < found->n; k++) {
                        const struct sample *one = &found->items[k];

                        if (one->series != n->last.series)
                                continue;
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
        _cleanup_(naming_clear) struct naming l = { 0 };
        int64_t host;
        int r;

        r = store_ask(s, ST_HOST_FIND, BIND(TEXT(f->host)), &host, NULL);
        if (r <= 0)
                return r < 0 ? r : -ENOENT;
        r = find_wanted(s, host, f->name, &l, &ids);
        if (r == 0)
                r = find_points(s, f, host, &ids, &found);
        if (r < 0)
                return r;
        *ret_cut = r > 0;
        return tell(&l, &found, visit, userdata);
}
