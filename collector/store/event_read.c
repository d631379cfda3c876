/* SPDX-License-Identifier: Apache-2.0 */
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
        unsigned st = (f->since < 0 ? ST_EVENTS_DOWN_BY_NOTHING : ST_EVENTS_UP_BY_NOTHING) + (unsigned) index_for(f);
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r;

        r = store_query(s, (enum statement) st,
                        BIND(INT(f->since), TEXT(f->host), TEXT(f->slice), TEXT(f->name), INT(f->limit)),
                        &q);
        if (r < 0)
                return r;
        while ((r = store_row(q)) > 0) {
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
                if (r != 0)
                        return r;
        }
        return r;
}

/* Ids grow with the time of arrival (but for steps of the clock), so that halving finds the place without an index. */
int store_event_before(struct store *s, usec_t time, int64_t *ret) {
        int64_t low = 1, high = 0, id, received;
        int r;

        r = store_ask(s, ST_EVENT_LAST, NULL, 0, &high, NULL);
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
