/* SPDX-License-Identifier: Apache-2.0 */
/* Retention: one small piece of work at a time, in a transaction of its own. */
#include "points.h"

#define DAY_MS         INT64_C(86400000)
#define ROWS_AT_ONCE   400
#define EVENTS_AT_ONCE 50 /* a body may be megabytes */
#define OTHERS_AT_ONCE 500
#define RECORDS_KEPT \
        ((usec_t) 90 * 86400 * USEC_PER_SEC) /* at least: an agent that was away that long sends anew */
#define SQUEEZE_LEAST 0.001

static const int64_t step_ms[_LEVEL_MAX] = { 1, 60000, 600000 };

/* What of a level is old enough to be condensed or dropped: everything before this. */
static int64_t cutoff(const struct store *s, const struct store_retention *r, enum level l, int64_t now_ms) {
        static const int64_t kept[_LEVEL_MAX] = { STORE_RAW_DAYS * DAY_MS, STORE_MINUTE_DAYS * DAY_MS,
                                                  INT64_MAX };
        int64_t all = (int64_t) r->days * DAY_MS, age = MIN(kept[l], all);
        int64_t squeezed = (int64_t) ((double) age * s->tending.squeeze);
        int64_t to = l < LEVEL_TEN_MINUTES ? step_ms[l + 1] : 1; /* no half bucket */

        return (now_ms - squeezed) / to * to;
}

/* --- One host -------------------------------------------------------------------------------- */

struct span { /* rows of one bucket, being collected */
        struct points points;
        int64_t start; /* of the bucket */
};

static int write_span(struct store *s, enum level to, int64_t host, struct span *span) {
        _cleanup_samples_ struct samples_out o = { 0 };
        int64_t id;
        int r = 0;

        points_sum(&span->points);
        samples_begin(&o, span->start);
        for (size_t i = 0; r == 0 && i < span->points.n; i++) {
                span->points.items[i].ms = span->start;
                r = samples_put(&o, &span->points.items[i]);
        }
        if (r == 0 && o.len > 0)
                r = points_write(s, to, host, &o, &id);
        span->points.n = 0;
        return r;
}

/* Rows of a level up to `until` become rows of the next; ret_last is the last row that was. At most
 * ROWS_AT_ONCE. */
static int condense_rows(struct store *s, enum level from, int64_t host, int64_t until, int64_t *ret_last,
                         size_t *ret_n) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        struct span span = { .start = -1 };
        int r;

        *ret_n = 0;
        r = store_query(s, ST_ROWS,
                        BIND(INT(points_id(from, host, 0) - 1), INT(points_id(from, host, until) - 1),
                             INT(ROWS_AT_ONCE)),
                        &q);
        while (r >= 0 && (r = store_row(q)) > 0) {
                int64_t id = sqlite3_column_int64(q, 0), bucket;

                bucket = points_ms(id) / step_ms[from + 1] * step_ms[from + 1];
                if (bucket != span.start) {
                        r = write_span(s, from + 1, host, &span);
                        if (r < 0)
                                break;
                        span.start = bucket;
                }
                r = points_collect(s, &span.points, sqlite3_column_blob(q, 1),
                                   (size_t) sqlite3_column_bytes(q, 1), points_ms(id));
                *ret_last = id;
                ++*ret_n;
        }
        if (r >= 0)
                r = write_span(s, from + 1, host, &span);
        points_clear(&span.points);
        return r < 0 ? r : 0;
}

static int condense(struct store *s, enum level l, int64_t host, int64_t until, bool *ret_more) {
        int64_t last = 0;
        size_t n;
        int r;

        r = condense_rows(s, l, host, until, &last, &n);
        if (r == 0 && n > 0)
                r = store_run(s, ST_ROWS_DELETE, BIND(INT(points_id(l, host, 0) - 1), INT(last)));
        *ret_more = *ret_more || n == ROWS_AT_ONCE;
        return r;
}

static int drop(struct store *s, enum level l, int64_t host, int64_t until, bool *ret_more) {
        sqlite3_stmt *q = NULL;
        int64_t last = 0;
        size_t n = 0;
        int r;

        r = store_query(
                s, ST_ROWS,
                BIND(INT(points_id(l, host, 0) - 1), INT(points_id(l, host, until) - 1), INT(ROWS_AT_ONCE)),
                &q);
        while (r >= 0 && (r = store_row(q)) > 0) {
                last = sqlite3_column_int64(q, 0);
                n++;
        }
        store_end(&q);
        if (r == 0 && n > 0)
                r = store_run(s, ST_ROWS_DELETE, BIND(INT(points_id(l, host, 0) - 1), INT(last)));
        *ret_more = *ret_more || n == ROWS_AT_ONCE;
        return r;
}

static int tend_host(struct store *s, int64_t host, const struct store_retention *retention, int64_t now_ms,
                     bool *ret_more) {
        int64_t all = now_ms - (int64_t) retention->days * DAY_MS;
        int r;

        r = points_fold(s, host, all);
        if (r == 0) /* what is older than everything is not worth condensing */
                r = drop(s, LEVEL_RAW, host, all, ret_more);
        if (r == 0)
                r = drop(s, LEVEL_MINUTE, host, all, ret_more);
        if (r == 0)
                r = drop(s, LEVEL_TEN_MINUTES, host, cutoff(s, retention, LEVEL_TEN_MINUTES, now_ms),
                         ret_more);
        if (r == 0)
                r = condense(s, LEVEL_MINUTE, host, cutoff(s, retention, LEVEL_MINUTE, now_ms), ret_more);
        if (r == 0)
                r = condense(s, LEVEL_RAW, host, cutoff(s, retention, LEVEL_RAW, now_ms), ret_more);
        return r;
}

/* --- The database ---------------------------------------------------------------------------- */

int store_size(struct store *s, struct store_size *ret) {
        int64_t pages, free_pages, page;
        int r;

        r = store_ask(s, ST_PAGES, NULL, 0, &pages, NULL);
        if (r > 0)
                r = store_ask(s, ST_FREE_PAGES, NULL, 0, &free_pages, NULL);
        if (r <= 0)
                return r < 0 ? r : -EIO;
        page = STORE_PAGE;
        *ret = (struct store_size) {
                .file = (uint64_t) (pages * page),
                .used = (uint64_t) ((pages - free_pages) * page),
                .squeeze = s->tending.squeeze,
                .damaged_rows = s->damaged_rows,
        };
        return 0;
}

static int drop_old(struct store *s, const struct store_retention *retention, usec_t now) {
        usec_t days = (usec_t) retention->days * (usec_t) DAY_MS * USEC_PER_MSEC,
               ages = MAX(days, RECORDS_KEPT);
        int r;

        r = store_run(s, ST_OLD_EVENTS, BIND(TIME(now > days ? now - days : 0), INT(EVENTS_AT_ONCE)));
        if (r == 0)
                r = store_drop_lines(s, retention->line_bytes, now > days ? now - days : 0);
        if (r == 0)
                r = store_run(s, ST_OLD_PARTS, BIND(TIME(now > ages ? now - ages : 0), INT(OTHERS_AT_ONCE)));
        if (r == 0)
                r = store_run(s, ST_OLD_RECORDS,
                              BIND(TIME(now > ages ? now - ages : 0), INT(OTHERS_AT_ONCE)));
        return r < 0 ? r : store_run(s, ST_OLD_METRICS, BIND(INT(OTHERS_AT_ONCE)));
}

/* Once a round over all hosts: how much less the ages have to be for RetainBytes. Events go only when series
 * cannot. */
static int squeeze(struct store *s, const struct store_retention *retention) {
        struct store_size size;
        double wanted;
        int r;

        r = store_size(s, &size);
        if (r < 0)
                return r;
        wanted = (double) retention->bytes / (double) MAX(size.used, (uint64_t) 1);
        if (wanted < 1)
                s->tending.squeeze *= MAX(wanted * 0.98, 0.5);
        else if (wanted > 1.1)
                s->tending.squeeze *= 1.05;
        s->tending.squeeze = MIN(MAX(s->tending.squeeze, SQUEEZE_LEAST), 1.0);
        return 0;
}

static int shrink(struct store *s, const struct store_retention *retention) {
        struct store_size size;
        int r;

        r = store_size(s, &size);
        if (r == 0 && size.used > retention->bytes) /* the least important of all */
                r = store_drop_lines(s, 0, 0);
        if (r == 0 && size.used > retention->bytes && s->tending.squeeze <= SQUEEZE_LEAST)
                r = store_run(s, ST_OLD_EVENTS, BIND(INT(INT64_MAX), INT(EVENTS_AT_ONCE)));
        return r;
}

/* Gives pages back when a tenth of the file is free; outside of a transaction of ours. */
static int vacuum(struct store *s) {
        sqlite3_stmt *q = NULL;
        struct store_size size;
        int r;

        r = store_size(s, &size);
        if (r < 0 || size.file - size.used < MAX(size.file / 10, (uint64_t) 4 * 1024 * 1024))
                return r;
        r = store_query(s, ST_VACUUM, NULL, 0, &q);
        while (r >= 0 && (r = store_row(q)) > 0) /* one row a page */
                ;
        store_end(&q);
        return r;
}

static int tend(struct store *s, const struct store_retention *retention, usec_t now, unsigned *ret_hosts) {
        int64_t next = 0, hosts = 0;
        bool more = false;
        int r;

        r = drop_old(s, retention, now);
        if (r == 0)
                r = shrink(s, retention);
        if (r == 0)
                r = store_ask(s, ST_NEXT_HOST, BIND(INT(s->tending.host)), &next, &hosts);
        if (r < 0)
                return r;
        *ret_hosts = (unsigned) hosts;
        if (next == 0) { /* min() of nothing: the round is over */
                s->tending.host = 0;
                r = store_drop_episodes(s, retention->bytes / 4);
                return r < 0 ? r : squeeze(s, retention);
        }
        r = tend_host(s, next, retention, (int64_t) (now / USEC_PER_MSEC), &more);
        if (r == 0 && !more)
                s->tending.host = next;
        return r;
}

int store_tend(struct store *s, const struct store_retention *retention, usec_t now, unsigned *ret_hosts) {
        int r;

        *ret_hosts = 0;
        r = store_begin(s);
        if (r < 0)
                return r;
        r = tend(s, retention, now, ret_hosts);
        if (r == 0)
                r = store_commit(s);
        store_rollback(s);
        return r < 0 ? r : vacuum(s);
}
