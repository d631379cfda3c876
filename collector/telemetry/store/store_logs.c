/* SPDX-License-Identifier: Apache-2.0 */
/* Events as they are read, and the lines that runs print. */
#include "statement.h"

static enum event_index index_for(const struct store_event_filter *f) {
        if (f->host)
                return BY_HOST;
        if (f->name)
                return BY_NAME;
        return f->slice ? BY_SLICE : BY_NOTHING;
}

int store_list_events(struct store *s, const struct store_event_filter *f,
                      int (*visit)(const struct store_event_row *e, void *userdata), void *userdata) {
        unsigned st = (f->since < 0 ? ST_EVENTS_DOWN_BY_NOTHING : ST_EVENTS_UP_BY_NOTHING) +
                      (unsigned) index_for(f);
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = store_query(
                s, (enum statement) st,
                BIND(INT(f->since), TEXT(f->host), TEXT(f->slice), TEXT(f->name), INT(f->limit)), &q);

        while (store_next(q, &r)) {
                struct store_event_row e = {
                        .id = sqlite3_column_int64(q, 0),
                        .host = column_text(q, 1),
                        .slice = column_text(q, 2),
                        .worker_id = column_int(q, 3),
                        .event = {
                                .time = (usec_t) sqlite3_column_int64(q, 4),
                                .received = (usec_t) sqlite3_column_int64(q, 5),
                                .name = column_text(q, 6),
                                .severity = (unsigned) sqlite3_column_int64(q, 7),
                                .body = column_text(q, 8),
                                .attributes = column_text(q, 9),
                                .service = column_text(q, 10),
                        },
                };

                r = visit(&e, userdata);
        }
        return r;
}

/* Ids grow with the time of arrival (but for steps of the clock), so that halving finds the place without an
 * index. */
int store_event_before(struct store *s, usec_t time, int64_t *ret) {
        int64_t low = 1, high = 0, id, received;
        int r = store_ask(s, ST_EVENT_LAST, NULL, 0, &high, NULL);

        if (r < 0)
                return r;
        while (low <= high) { /* what is below low came earlier, what is above high did not */
                int64_t middle = low + (high - low) / 2;

                r = store_ask(s, ST_EVENT_NEXT, BIND(INT(middle)), &id, &received);
                if (r < 0)
                        return r;
                if (r > 0 && (usec_t) received < time)
                        low = id + 1;
                else
                        high = middle - 1;
        }
        *ret = low - 1;
        return 0;
}

/* --- What runs print: lines, and the parts (one start of a run on a host) that they belong to ------ */

#define LINES_AT_ONCE 500
#define SHORT_LINES_AT_ONCE ((int64_t) 5000)
#define LINES_ALWAYS 1000 /* however few bytes they may have together */

/* The first line of a part. One whose lines are gone is known for a while, so that they are no news. */
static int add_part(struct store *s, int64_t host, const struct store_line *l, int64_t *ret) {
        int r;

        if (s->parts >= STORE_PARTS_OF_PUSH)
                return -EDQUOT;
        s->parts++;
        r = store_run(s, ST_PARTS_FORGET,
                      BIND(INT(host), INT(STORE_PARTS_EMPTY), INT(STORE_PARTS_OF_PUSH)));
        if (r >= 0)
                r = store_run(s, ST_PART_ADD, BIND(TEXT(l->run), TEXT(l->invocation), INT(host), INT(0)));
        if (r < 0)
                return r;
        *ret = sqlite3_last_insert_rowid(s->db);
        return 0;
}

int store_add_line(struct store *s, int64_t host, const struct store_line *l, usec_t now) {
        int64_t part, last;
        int r = store_ask(s, ST_PART_FIND, BIND(TEXT(l->run), TEXT(l->invocation), INT(host)), &part, &last);

        if (r < 0)
                return r;
        if (r == 0) {
                r = add_part(s, host, l, &part);
                if (r < 0)
                        return r;
                last = 0;
        }
        if (l->number <= last)
                return 0;
        r = store_run(s, ST_LINE_ADD,
                      BIND(TEXT(l->run), INT(part), INT(l->number), INT(l->number - last - 1), TIME(l->time),
                           TIME(now), INT(l->priority), TEXT(l->text)));
        if (r >= 0)
                r = store_run(s, ST_PART_SET,
                              BIND(INT(part), TEXT(l->slice), KNOWN(l->worker_id), KNOWN(l->generation),
                                   INT(l->number), TIME(now), INT((int64_t) strlen(l->text))));
        return r < 0 ? r : 1;
}

static int visit_lines(sqlite3_stmt *q, int (*visit)(const struct store_line_row *l, void *userdata),
                       void *userdata) {
        int r = 0;

        while (store_next(q, &r)) {
                struct store_line_row l = {
                        .id = sqlite3_column_int64(q, 0),
                        .host = column_text(q, 1),
                        .missing = sqlite3_column_int64(q, 7),
                        .line = {
                                .run = column_text(q, 11),
                                .slice = column_text(q, 2),
                                .worker_id = column_int(q, 3),
                                .generation = column_int(q, 4),
                                .invocation = column_text(q, 5),
                                .number = sqlite3_column_int64(q, 6),
                                .time = (usec_t) sqlite3_column_int64(q, 8),
                                .priority = (unsigned) sqlite3_column_int64(q, 9),
                                .text = column_text(q, 10),
                        },
                };

                r = visit(&l, userdata);
        }
        return r;
}

int store_list_lines(struct store *s, const struct store_line_filter *f,
                     int (*visit)(const struct store_line_row *l, void *userdata), void *userdata) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = store_query(s, f->since < 0 ? ST_LINES_DOWN : ST_LINES_UP,
                            BIND(TEXT(f->run), INT(f->since), TEXT(f->host), TEXT(f->slice),
                                 KNOWN(f->worker), INT(f->limit)),
                            &q);

        return r < 0 ? r : visit_lines(q, visit, userdata);
}

int store_list_all_lines(struct store *s, int64_t since, int64_t limit,
                         int (*visit)(const struct store_line_row *l, void *userdata), void *userdata) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = store_query(s, ST_LINES_ALL, BIND(INT(since), INT(limit)), &q);

        return r < 0 ? r : visit_lines(q, visit, userdata);
}

int store_list_runs(struct store *s, int (*visit)(const char *run, void *userdata), void *userdata) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = store_query(s, ST_LINE_RUNS, NULL, 0, &q);

        while (store_next(q, &r))
                r = visit(column_text(q, 0), userdata);
        return r;
}

int store_line_bytes(struct store *s, uint64_t *ret) {
        int64_t bytes = 0;
        int r = store_ask(s, ST_LINE_BYTES, NULL, 0, &bytes, NULL);

        *ret = (uint64_t) MAX(bytes, 0);
        return r < 0 ? r : 0;
}

int store_drop_short_lines(struct store *s, uint64_t keep) {
        int64_t most = (int64_t) (MIN(keep, (uint64_t) INT64_MAX) / STORE_LINE_LEAST) + LINES_ALWAYS;
        int64_t first = 0, n = 0;
        int r = store_ask(s, ST_LINES_COUNT, NULL, 0, &first, &n);

        if (r < 0 || n <= most)
                return MIN(r, 0);
        s->tending.behind = s->tending.behind || n - most > SHORT_LINES_AT_ONCE;
        return store_run(s, ST_LINES_DELETE, BIND(INT(first + MIN(n - most, SHORT_LINES_AT_ONCE) - 1)));
}

int store_drop_lines(struct store *s, uint64_t keep, usec_t before) {
        uint64_t bytes;
        int64_t last = 0;
        int r = store_line_bytes(s, &bytes);

        if (r == 0)
                r = store_ask(s, ST_LINES_OLD,
                              BIND(INT(LINES_AT_ONCE), INT(bytes > keep ? (int64_t) (bytes - keep) : 0),
                                   TIME(before)),
                              &last, NULL);
        return r < 0 || last == 0 ? MIN(r, 0) : store_run(s, ST_LINES_DELETE, BIND(INT(last)));
}
