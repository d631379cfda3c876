/* SPDX-License-Identifier: Apache-2.0 */
/* Retention: one small piece of work at a time, in a transaction of its own. */
#include "points.h"

#define TENDED_EVERY   (300 * USEC_PER_SEC)
#define DAY_MS         INT64_C(86400000)
#define ROWS_AT_ONCE   400
#define EVENTS_AT_ONCE 50 /* a body may be megabytes */
#define OTHERS_AT_ONCE 500
/* What is small is removed faster than it comes: again and again in one piece, until so much is free. */
#define REPEATS_AT_ONCE 16
#define FREED_AT_ONCE   ((uint64_t) 8 * 1024 * 1024)
#define TURNS_OF_HOST   8 /* in a row; then the others have theirs */
#define SERIES_AT_ONCE  1000
/* At least: an agent that was away that long sends everything again. */
#define RECORDS_KEPT ((usec_t) 90 * 86400 * USEC_PER_SEC)
#define SERIES_LEAST_MS INT64_C(900000) /* as much is kept of series before events go, too */

/* When nothing is kept of it, and it was not heard since: its name and number are free. */
static int forget_host(struct store *s, int64_t host, int64_t since_ms) {
        usec_t since = (usec_t) MAX(since_ms, INT64_C(0)) * USEC_PER_MSEC;
        int r = store_run(s, ST_HOST_FORGET,
                          BIND(INT(host), TIME(since), INT(points_id(host, 0)),
                               INT(points_id(host, INT64_MAX))));

        if (r < 0 || sqlite3_changes(s->db) == 0)
                return r;
        host_series_clear(series_of_host(&s->series, host));
        return store_run(s, ST_LATEST_DELETE, BIND(INT(host)));
}

static int used_bytes(struct store *s, uint64_t *ret) {
        struct store_size size;
        int r = store_size(s, &size);

        if (r == 0)
                *ret = size.used;
        return r;
}

static int drop_some_rows(struct store *s, int64_t first, int64_t until, bool *ret_more) {
        int r = store_run(s, ST_ROWS_DELETE, BIND(INT(first), INT(until), INT(ROWS_AT_ONCE)));

        if (r < 0)
                return r;
        *ret_more = sqlite3_changes(s->db) == ROWS_AT_ONCE;
        r = store_run(s, ST_HANDOVER_OLD, BIND(INT(first), INT(until), INT(ROWS_AT_ONCE)));
        if (r == 0)
                s->expired += (uint64_t) sqlite3_changes(s->db);
        return r;
}

static int drop_rows(struct store *s, int64_t first, int64_t until, bool *ret_more) {
        uint64_t before = 0, used;
        int r = used_bytes(s, &before);

        *ret_more = r == 0;
        used = before;
        for (unsigned i = 0; r == 0 && *ret_more && i < REPEATS_AT_ONCE; i++) {
                if (before - MIN(before, used) >= FREED_AT_ONCE)
                        return 0;
                r = drop_some_rows(s, first, until, ret_more);
                if (r == 0)
                        r = used_bytes(s, &used);
        }
        return r;
}

/* Of one that sends nothing its series are not remembered for it. */
static int fold_and_note(struct store *s, int64_t host, int64_t since) {
        struct host_series *h = series_of_host(&s->series, host);
        bool sends = h && h->loaded;
        int r = points_fold(s, host, since);

        if (r == 0)
                r = points_host(s, host, &h);
        if (r < 0)
                return r;
        series_note_all(&s->series, h);
        if (!sends)
                host_series_clear(h);
        return 0;
}

/* The oldest rows of a host go, a few at a time. */
static int tend_host(struct store *s, int64_t host, const struct store_retention *retention, int64_t now_ms,
                     bool *ret_more) {
        int64_t all = (int64_t) retention->days * DAY_MS, first = points_id(host, 0), oldest;
        int64_t until = points_id(host, now_ms - (int64_t) ((double) all * s->tending.squeeze));
        int r = fold_and_note(s, host, now_ms - all);

        if (r == 0)
                r = drop_rows(s, first, until, ret_more);
        if (r < 0)
                return r;
        r = store_ask(s, ST_ROWS_OLDEST, BIND(INT(first), INT(points_id(host, INT64_MAX))), &oldest, NULL);
        if (r > 0)
                s->tending.oldest_ms = MIN(s->tending.oldest_ms, points_ms(oldest));
        return r < 0 || r > 0 || *ret_more ? MIN(r, 0) : forget_host(s, host, now_ms - all);
}

/* --- Series that no host has any more -------------------------------------------------------------- */

/* A round begins: who comes in it has its series noted. Without memory none is removed after it. */
static int begin_sweep(struct store *s) {
        int64_t last = 0;
        int r = store_ask(s, ST_SERIES_LAST, NULL, 0, &last, NULL);

        s->tending.swept = 0;
        if (r >= 0)
                (void) series_watch(&s->series, last);
        return MIN(r, 0);
}

/* The last number stays: the next one is above it, and never one that old rows still have. */
static int sweep_one(struct store *s, bool *ret_more) {
        int64_t id = 0;
        int r = store_ask(s, ST_SERIES_NEXT, BIND(INT(s->tending.swept), INT(s->series.used_through)), &id,
                          NULL);

        *ret_more = r > 0;
        if (r <= 0)
                return r;
        s->tending.swept = id;
        if (series_is_used(&s->series, id))
                return 0;
        series_forget_keys(&s->series);
        return store_run(s, ST_SERIES_DELETE, BIND(INT(id)));
}

/* All hosts had their turn. */
static int sweep_series(struct store *s, bool *ret_more) {
        int r = 0;

        *ret_more = s->series.used_through > 0;
        for (unsigned i = 0; r == 0 && *ret_more && i < SERIES_AT_ONCE; i++)
                r = sweep_one(s, ret_more);
        if (!*ret_more)
                series_unwatch(&s->series);
        return r;
}

/* --- The database ---------------------------------------------------------------------------------- */

int store_size(struct store *s, struct store_size *ret) {
        int64_t pages, free_pages, page;
        int r = store_ask(s, ST_PAGES, NULL, 0, &pages, NULL);

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
        int r = store_run(s, ST_OLD_EVENTS, BIND(TIME(now > days ? now - days : 0), INT(EVENTS_AT_ONCE)));

        if (r == 0)
                r = store_drop_lines(s, retention->line_bytes, now > days ? now - days : 0);
        if (r == 0)
                r = store_drop_short_lines(s, retention->line_bytes);
        if (r < 0 || s->tending.host != 0)
                return r; /* what follows looks at all of a table: once a round over all hosts */
        if (r == 0)
                r = store_run(s, ST_OLD_PARTS, BIND(TIME(now > ages ? now - ages : 0), INT(OTHERS_AT_ONCE)));
        return r < 0 ? r
                     : store_run(s, ST_OLD_RECORDS,
                                 BIND(TIME(now > ages ? now - ages : 0), INT(OTHERS_AT_ONCE)));
}

static double least_squeeze(const struct store_retention *retention) {
        return (double) SERIES_LEAST_MS / ((double) retention->days * (double) DAY_MS);
}

/*
 * Once a round over all hosts: how much less the age has to be for RetainBytes. What counts is the age of
 * what is there, which may be far less than RetainDays.
 */
static int adjust_squeeze(struct store *s, const struct store_retention *retention, int64_t now_ms) {
        double age = (double) MAX(now_ms - s->tending.oldest_ms, 0) /
                     ((double) retention->days * (double) DAY_MS);
        struct store_size size;
        double wanted;
        int r;

        s->tending.oldest_ms = INT64_MAX;
        r = store_size(s, &size);
        if (r < 0)
                return r;
        wanted = (double) retention->bytes / (double) MAX(size.used, (uint64_t) 1);
        if (wanted < 1)
                s->tending.squeeze = MIN(s->tending.squeeze, age) * MAX(wanted * 0.98, 0.5);
        else if (wanted > 1.1)
                s->tending.squeeze *= 1.05;
        s->tending.squeeze = MIN(MAX(s->tending.squeeze, least_squeeze(retention)), 1.0);
        return 0;
}

/*
 * The largest that it was since it was within its limit: of one that was too large when this program began,
 * no more than that. What grows beyond is a flood, and not a limit that was lowered.
 */
static void note_ceiling(struct tending *t, uint64_t limit, uint64_t used) {
        t->ceiling = MAX(limit, t->ceiling > 0 ? MIN(t->ceiling, used) : used);
        t->full = used / 2 > t->ceiling;
        t->flooded = used - used / 3 > t->ceiling;
}

/* Lines are the least important of all. Events go only when series cannot, or too slowly. */
static int shrink_some(struct store *s, const struct store_retention *retention) {
        int r = store_drop_lines(s, 0, 0);

        if (r == 0 && s->tending.flooded)
                r = store_drop_short_lines(s, 0);
        if (r == 0 && (s->tending.flooded || s->tending.squeeze <= least_squeeze(retention)))
                r = store_run(s, ST_OLD_EVENTS, BIND(INT(INT64_MAX), INT(EVENTS_AT_ONCE)));
        return r;
}

static int shrink_rest(struct store *s, const struct store_retention *retention) {
        uint64_t before = 0, used;
        unsigned repeats;
        int r = used_bytes(s, &before);

        if (r < 0)
                return r;
        note_ceiling(&s->tending, retention->bytes, before);
        repeats = s->tending.flooded ? REPEATS_AT_ONCE : 1;
        used = before;
        for (unsigned i = 0; i < repeats && used > retention->bytes &&
                             before - MIN(before, used) < FREED_AT_ONCE;
             i++) {
                r = shrink_some(s, retention);
                if (r == 0)
                        r = used_bytes(s, &used);
                if (r < 0)
                        return r;
        }
        s->tending.behind = s->tending.behind || (s->tending.flooded && used < before);
        return 0;
}

/* Gives pages back when a tenth of the file is free; outside of a transaction of ours. */
static int vacuum_pages(struct store *s) {
        sqlite3_stmt *q = NULL;
        struct store_size size;
        int r = store_size(s, &size);

        if (r < 0 || size.file - size.used < MAX(size.file / 10, (uint64_t) 4 * 1024 * 1024))
                return r;
        r = store_query(s, ST_VACUUM, NULL, 0, &q);
        while (r >= 0 && (r = store_row(q)) > 0) /* one row a page */
                ;
        store_end(&q);
        return r;
}

static int keep_tended(struct store *s, usec_t now) {
        if (now >= s->tending.kept && now - s->tending.kept < TENDED_EVERY)
                return 0;
        s->tending.kept = now;
        return store_run(s, ST_TENDED_PUT, BIND(TIME(now)));
}

static int tend_once(struct store *s, const struct store_retention *retention, usec_t now,
                     unsigned *ret_hosts) {
        int64_t next = 0, hosts = 0, now_ms = (int64_t) (now / USEC_PER_MSEC);
        bool more = false;
        int r;

        s->tending.behind = false;
        r = keep_tended(s, now);
        if (r == 0)
                r = drop_old(s, retention, now);
        if (r == 0)
                r = shrink_rest(s, retention);
        if (r == 0)
                r = store_ask(s, ST_NEXT_HOST, BIND(INT(s->tending.host)), &next, &hosts);
        if (r < 0)
                return r;
        *ret_hosts = (unsigned) hosts;
        if (next == 0) { /* min() of nothing: the round is over */
                r = sweep_series(s, &more);
                s->tending.behind = s->tending.behind || more;
                if (r < 0 || more)
                        return r;
                s->tending.host = 0;
                r = store_drop_episodes(s, retention->bytes / 4);
                return r < 0 ? r : adjust_squeeze(s, retention, now_ms);
        }
        if (s->tending.host == 0 && s->tending.turns == 0)
                r = begin_sweep(s);
        if (r < 0)
                return r;
        if (next > s->tending.host + 1)
                s->tending.free_host = s->tending.host + 1;
        r = tend_host(s, next, retention, now_ms, &more);
        if (r < 0)
                return r;
        s->tending.behind = s->tending.behind || more;
        if (more && ++s->tending.turns < TURNS_OF_HOST)
                return 0;
        s->tending.turns = 0;
        s->tending.host = next;
        return 0;
}

bool store_is_behind(const struct store *s) {
        return s->tending.behind;
}

bool store_is_full(const struct store *s) {
        return s->tending.full;
}

int store_tended(struct store *s, usec_t *ret) {
        int64_t at = 0;
        int r = store_ask(s, ST_TENDED, NULL, 0, &at, NULL);

        if (r < 0)
                return r;
        *ret = at > 0 ? (usec_t) at : 0;
        return 0;
}

int store_tend(struct store *s, const struct store_retention *retention, usec_t now, unsigned *ret_hosts) {
        int r;

        *ret_hosts = 0;
        r = store_begin(s);
        if (r < 0)
                return r;
        r = store_finish(s, tend_once(s, retention, now, ret_hosts), NULL);
        return r < 0 ? r : vacuum_pages(s);
}
