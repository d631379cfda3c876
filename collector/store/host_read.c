/* SPDX-License-Identifier: Apache-2.0 */
#include "statement.h"

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
                };

                r = visit(&h, userdata);
                if (r != 0)
                        return r;
        }
        return r;
}

int store_list_metrics(struct store *s, int64_t host,
                       int (*visit)(const struct store_value *v, void *userdata), void *userdata) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r;

        r = store_query(s, ST_LIST_METRICS, BIND(INT(host)), &q);
        if (r < 0)
                return r;
        while ((r = store_row(q)) > 0) {
                struct store_value v = {
                        .metric = {
                                .name = column_text(q, 0),
                                .attributes = column_text(q, 1),
                                .service = column_text(q, 2),
                                .unit = column_text(q, 3),
                                .is_int = sqlite3_column_type(q, 4) == SQLITE_INTEGER,
                                .i = sqlite3_column_int64(q, 4),
                                .d = sqlite3_column_double(q, 4),
                                .time = (usec_t) sqlite3_column_int64(q, 5),
                        },
                        .is_null = sqlite3_column_type(q, 4) == SQLITE_NULL,
                };

                r = visit(&v, userdata);
                if (r != 0)
                        return r;
        }
        return r;
}
