/* SPDX-License-Identifier: Apache-2.0 */
#include "points.h"

#include "grow.h"

#define HOST_SHIFT  41
#define MS_MAX      ((INT64_C(1) << HOST_SHIFT) - 1)
/* Rows of one host that begin in the same millisecond lie side by side; more are spread. */
#define NEAR_MS 16
#define TRIES_MAX   40
#define SPREAD_BITS 24 /* milliseconds: some hours, for a host whose clock stands still */

int64_t points_id(int64_t host, int64_t ms) {
        return host << HOST_SHIFT | MIN(MAX(ms - POINTS_EPOCH_MS, 0), MS_MAX);
}

int64_t points_ms(int64_t id) {
        return (id & MS_MAX) + POINTS_EPOCH_MS;
}

int64_t points_host_of(int64_t id) {
        return id >> HOST_SHIFT;
}

void points_clear(struct points *p) {
        free(p->items);
        *p = (struct points) { 0 };
}

int points_add(struct points *p, const struct stored_sample *one) {
        int r = grow(&p->items, &p->size, p->n + 1, sizeof(*p->items));

        if (r < 0)
                return r;
        p->items[p->n++] = *one;
        return 0;
}

static int collect_row(struct store *s, struct points *p, const void *data, size_t len, int64_t base) {
        struct samples_in in = samples_read(data, len, base);
        struct stored_sample one;
        int r;

        while ((r = samples_next(&in, &one)) > 0)
                if (points_add(p, &one) < 0)
                        return -ENOMEM;
        s->damaged_rows += r < 0;
        return 0;
}

int points_collect(struct store *s, struct points *p, sqlite3_stmt *q) {
        return collect_row(s, p, sqlite3_column_blob(q, 1), (size_t) sqlite3_column_bytes(q, 1),
                           points_ms(sqlite3_column_int64(q, 0)));
}

static int by_series_and_time(const void *a, const void *b) {
        const struct stored_sample *x = a, *y = b;

        return COMPARE(x->series, y->series) ?: COMPARE(x->ms, y->ms);
}

void points_sort(struct points *p) {
        if (p->n > 0)
                qsort(p->items, p->n, sizeof(*p->items), by_series_and_time);
}

const struct stored_sample *points_find(const struct points *p, int64_t series) {
        size_t at = SORTED_PLACE(p->n, i, p->items[i].series < series);

        return at < p->n && p->items[at].series == series ? &p->items[at] : NULL;
}

char *points_ids(const int64_t *first, size_t n, size_t step) {
        char *text = malloc(n * 21 + 3), *at = text;
        int64_t before = 0; /* no series has this number */

        if (!text)
                return NULL;
        *at++ = '[';
        for (size_t i = 0; i < n; i++) {
                int64_t id = *(const int64_t *) (const void *) ((const char *) first + i * step);

                if (id != before)
                        at += sprintf(at, "%s%" PRId64, i > 0 ? "," : "", id);
                before = id;
        }
        memcpy(at, "]", sizeof("]"));
        return text;
}

void points_latest(struct points *p) {
        size_t n = 0;

        points_sort(p);
        for (size_t i = 0; i < p->n; i++) {
                n += i > 0 && p->items[i].series != p->items[n].series;
                p->items[n] = p->items[i];
        }
        p->n = p->n > 0 ? n + 1 : 0;
}

/* Where to try next: any sequence does that visits the whole span (a Weyl sequence of the golden ratio). */
static int64_t next_try(struct store *s, unsigned i) {
        if (i < NEAR_MS)
                return i;
        s->spread += UINT64_C(0x9e3779b97f4a7c15);
        return (int64_t) (s->spread >> (64 - MIN(i, (unsigned) SPREAD_BITS)));
}

/* Writes a row where there is room for it. */
static int write_row(struct store *s, int64_t host, const struct samples_out *o, int64_t *ret) {
        int64_t ms = points_ms(points_id(host, o->base));
        int r;

        for (unsigned i = 0; i < TRIES_MAX; i++) {
                int64_t at = points_id(host, ms + next_try(s, i));

                r = store_run(s, ST_ROW_ADD, BIND(INT(at), BLOB(o->data, o->len)));
                if (r < 0)
                        return r;
                if (sqlite3_changes(s->db) > 0) {
                        *ret = at;
                        return s->hands_over ? store_run(s, ST_HANDOVER_ADD, BIND(INT(at))) : 0;
                }
        }
        return -EUSERS; /* millions of rows stand there */
}

/* --- Latest values --------------------------------------------------------------------------------- */

/* What table latest has; *ret_through: the last row that it knows. */
static int read_table(struct store *s, int64_t host, struct points *p, int64_t *ret_through) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r;

        *ret_through = points_id(host, 0) - 1;
        r = store_query(s, ST_LATEST, BIND(INT(host)), &q);
        if (r == 0 && (r = store_row(q)) > 0) {
                *ret_through = sqlite3_column_int64(q, 0);
                r = points_collect(s, p, q);
        }
        return r;
}

/* The same and the rows behind it, up to *ret_last. */
static int read_all(struct store *s, int64_t host, struct points *p, int64_t *ret_through,
                    int64_t *ret_last) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = read_table(s, host, p, ret_through);

        if (r < 0)
                return r;
        *ret_last = *ret_through;
        r = store_query(s, ST_ROWS, BIND(INT(*ret_through), INT(points_id(host, INT64_MAX))), &q);
        while (r >= 0 && (r = store_row(q)) > 0) {
                *ret_last = sqlite3_column_int64(q, 0);
                r = points_collect(s, p, q);
        }
        points_latest(p);
        return r;
}

static int write_table(struct store *s, int64_t host, const struct points *p, int64_t through,
                       int64_t since) {
        _cleanup_samples_ struct samples_out o = { 0 };
        int r = 0;

        samples_begin(&o, points_ms(through));
        for (size_t i = 0; r == 0 && i < p->n; i++)
                if (p->items[i].ms >= since)
                        r = samples_put(&o, &p->items[i]);
        return r < 0 ? r
                     : store_run(s, ST_LATEST_PUT,
                                 BIND(INT(host), INT(through), BLOB(o.data ?: (const uint8_t *) "", o.len)));
}

int points_read_latest(struct store *s, int64_t host, struct points *ret) {
        int64_t through, last;

        return read_all(s, host, ret, &through, &last);
}

int points_fold(struct store *s, int64_t host, int64_t since) {
        struct host_series *h = series_of_host(&s->series, host);
        _cleanup_points_ struct points p = { 0 };
        int64_t through, last;
        int r = read_all(s, host, &p, &through, &last);

        if (r < 0 || last == through)
                return r;
        r = write_table(s, host, &p, last, since);
        if (r == 0 && h)
                host_series_clear(h); /* what is silent is out of it, too */
        return r;
}

/*
 * Rows older than what table latest knows: an agent's backlog. They go into the table once for all of a
 * push: it is written whole, and a push may be of many times.
 */
static int end_late(struct store *s) {
        _cleanup_points_ struct points p = s->late;
        int64_t through;
        int r;

        s->late = (struct points) { 0 };
        if (p.n == 0)
                return 0;
        r = read_table(s, s->late_host, &p, &through);
        if (r < 0)
                return r;
        points_latest(&p);
        return write_table(s, s->late_host, &p, through, 0);
}

int points_host(struct store *s, int64_t host, struct host_series **ret) {
        struct host_series *h = series_of_host(&s->series, host);
        _cleanup_points_ struct points p = { 0 };
        int64_t last;
        int r;

        if (!h)
                return -ENOMEM;
        *ret = h;
        if (h->loaded)
                return 0;
        r = read_all(s, host, &p, &h->through, &last);
        for (size_t i = 0; r == 0 && i < p.n; i++)
                r = host_series_add(h, p.items[i].series);
        h->loaded = r == 0;
        return r;
}

/* --- Writing points -------------------------------------------------------------------------------- */

static int end_row(struct store *s) {
        int64_t host = s->row_host, id = 0;
        struct host_series *h;
        int r;

        s->row_host = 0;
        if (host == 0 || s->row.len == 0)
                return 0;
        r = points_host(s, host, &h);
        if (r == 0)
                r = write_row(s, host, &s->row, &id);
        if (r < 0 || id > h->through)
                return r;
        s->late_host = host;
        return collect_row(s, &s->late, s->row.data, s->row.len, s->row.base);
}

int store_end_points(struct store *s) {
        int r = end_row(s);

        return r < 0 ? r : end_late(s);
}

/* The number of the series; -EDQUOT when it would be one too many for the host. */
static int find_series(struct store *s, const struct host_series *h, const struct store_metric *m,
                       int64_t *ret) {
        int64_t id = m->key_len > 0 ? series_find(&s->series, m->key, m->key_len) : 0, same = 1;
        int r;

        if (id == 0) {
                r = store_ask(s, ST_SERIES_FIND,
                              BIND(TEXT(m->name), TEXT(m->attributes), TEXT(m->service), TEXT(m->unit)), &id,
                              &same);
                if (r == 0 && h->n >= STORE_SERIES_MAX)
                        return -EDQUOT;
                if (r == 0) {
                        r = store_run(
                                s, ST_SERIES_ADD,
                                BIND(TEXT(m->name), TEXT(m->attributes), TEXT(m->service), TEXT(m->unit)));
                        id = sqlite3_last_insert_rowid(s->db);
                } else if (r > 0 && !same)
                        r = store_run(s, ST_SERIES_UNIT, BIND(INT(id), TEXT(m->unit)));
                if (r < 0)
                        return r;
                if (id > UINT32_MAX)
                        return -EDQUOT;
                if (m->key_len > 0) {
                        r = series_remember(&s->series, m->key, m->key_len, id);
                        if (r < 0)
                                return r;
                }
        }
        *ret = id;
        return 0;
}

bool store_knows_series(struct store *s, const void *key, size_t len) {
        return series_find(&s->series, key, len) > 0;
}

int store_add_point(struct store *s, int64_t host, const struct store_metric *m) {
        struct stored_sample one = {
                .is_int = m->is_int, .i = m->i, .d = m->d, .ms = (int64_t) (m->time / USEC_PER_MSEC)
        };
        struct host_series *h;
        bool is_new;
        int r;

        one.ms = MAX(one.ms, POINTS_EPOCH_MS);
        is_new = s->row_host != host || one.ms > s->row.base + POINTS_ROW_SPAN_MS ||
                 one.ms < s->row.base - POINTS_ROW_SPAN_MS;
        if (is_new && s->rows >= STORE_ROWS_OF_PUSH)
                return -EDQUOT;
        r = points_host(s, host, &h);
        if (r == 0)
                r = find_series(s, h, m, &one.series);
        if (r < 0)
                return r;
        series_note(&s->series, one.series);
        if (!host_series_has(h, one.series)) {
                if (h->n >= STORE_SERIES_MAX)
                        return -EDQUOT;
                r = host_series_add(h, one.series);
                if (r < 0)
                        return r;
        }
        if (is_new) {
                r = s->row_host == host ? end_row(s) : store_end_points(s);
                if (r < 0)
                        return r;
                s->rows++;
                s->row_host = host;
                samples_begin(&s->row, one.ms);
        }
        return samples_put(&s->row, &one);
}
