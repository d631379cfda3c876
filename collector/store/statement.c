/* SPDX-License-Identifier: Apache-2.0 */
#include "statement.h"

#define HOST_COLUMNS \
        "id, name, slice, worker_id, accelerator_type, version, boot_id, state, reasons, job, step, " \
        "first_seen, last_seen, max(state_time, identity_time, step_time)"
#define EVENT_QUERY(condition, order) \
        "SELECT e.id, h.name, e.slice, e.worker_id, e.time, e.received, e.name, e.severity, e.body, " \
        "e.attributes, e.service " \
        "FROM events e JOIN hosts h ON h.id = e.host WHERE " condition " AND e.id > ?1 " \
        "AND (?2 IS NULL OR h.name = ?2) AND (?3 IS NULL OR e.slice = ?3) AND (?4 IS NULL OR e.name = ?4) " \
        "ORDER BY e.id " order " LIMIT ?5"
#define EVENT_HOST "e.host = (SELECT id FROM hosts WHERE name = ?2)"

#define LINE_QUERY(order) \
        "SELECT l.id, h.name, p.slice, p.worker_id, p.generation, p.invocation, l.number, l.missing, l.time, l.priority, l.text " \
        "FROM run_lines l JOIN run_parts p ON p.id = l.part JOIN hosts h ON h.id = p.host " \
        "WHERE l.run = ?1 AND l.id > ?2 AND (?3 IS NULL OR h.name = ?3) AND (?4 IS NULL OR p.slice = ?4) " \
        "AND (?5 IS NULL OR p.worker_id = ?5) ORDER BY l.id " order " LIMIT ?6"

#define CAPTURE_COLUMNS \
        "id, episode, slice, worker_id, host, run, generation, round, rounds, hosts, slice_hosts, suspicion, taken"

static const char *const sql[_ST_MAX] = {
        [ST_BEGIN] = "BEGIN IMMEDIATE",
        [ST_COMMIT] = "COMMIT",
        [ST_ROLLBACK] = "ROLLBACK",
        [ST_MARK] = "SAVEPOINT one",
        [ST_KEEP] = "RELEASE one",
        [ST_UNDO] = "ROLLBACK TO one",
        [ST_RANGE_BELOW] = "SELECT first, last FROM records WHERE spool = ?1 AND class = ?2 AND first <= ?3 "
                           "ORDER BY first DESC LIMIT 1",
        [ST_RANGE_ABOVE] = "SELECT first, last FROM records WHERE spool = ?1 AND class = ?2 AND first = ?3",
        [ST_RANGE_ADD] =
                "INSERT INTO records (spool, class, first, last, changed) VALUES (?1, ?2, ?3, ?4, ?5) "
                "ON CONFLICT (spool, class, first) DO UPDATE SET last = excluded.last, changed = "
                "excluded.changed",
        [ST_RANGE_DELETE] = "DELETE FROM records WHERE spool = ?1 AND class = ?2 AND first = ?3",
        [ST_RANGE_COUNT] = "SELECT count(*) FROM records WHERE spool = ?1 AND class = ?2",
        [ST_RANGE_LOWEST] = "SELECT first, last FROM records WHERE spool = ?1 AND class = ?2 ORDER BY first "
                            "LIMIT 1 OFFSET ?3",
        [ST_HOST_FIND] = "SELECT id FROM hosts WHERE name = ?1",
        [ST_HOST_ADD] = "INSERT INTO hosts (name, first_seen, last_seen) VALUES (?1, ?2, ?2)",
        [ST_HOST_AGENT] = "UPDATE hosts SET last_seen = ?2, agent = 1 WHERE id = ?1",
        [ST_HOST_IDENTITY] = "UPDATE hosts SET slice = ?2, worker_id = ?3, accelerator_type = ?4, version = "
                             "?5, boot_id = ?6, "
                             "identity_time = ?7 WHERE id = ?1 AND identity_time <= ?7",
        [ST_HOST_OTHER] = "UPDATE hosts SET last_seen = ?2 WHERE id = ?1 AND agent = 0",
        [ST_HOST_STATE] = "UPDATE hosts SET state = ?2, state_time = ?3 WHERE id = ?1 AND state_time <= ?3",
        [ST_HOST_REASONS] =
                "UPDATE hosts SET reasons = ?2, reasons_time = ?3 WHERE id = ?1 AND reasons_time <= ?3",
        [ST_HOST_STEP] =
                "UPDATE hosts SET job = ?2, step = ?3, step_time = ?4 WHERE id = ?1 AND step_time <= ?4",
        [ST_EVENT_ADD] = "INSERT INTO events (host, slice, worker_id, time, received, service, name, "
                         "severity, body, attributes) "
                         "SELECT id, coalesce(?2, slice), coalesce(?3, worker_id), ?4, ?5, ?6, ?7, ?8, ?9, "
                         "?10 FROM hosts WHERE id = ?1",
        [ST_LIST_HOSTS] = "SELECT " HOST_COLUMNS " FROM hosts WHERE (?1 IS NULL OR name = ?1) "
                          "AND name <> '" STORE_OWN_NAME "' ORDER BY id",
        [ST_EVENT_NEXT] = "SELECT id, received FROM events WHERE id >= ?1 ORDER BY id LIMIT 1",
        [ST_EVENT_LAST] = "SELECT id FROM events ORDER BY id DESC LIMIT 1",
        [ST_SERIES_FIND] =
                "SELECT id, unit = ?4 FROM series WHERE name = ?1 AND attributes = ?2 AND service = ?3",
        [ST_SERIES_ADD] = "INSERT INTO series (name, attributes, service, unit) VALUES (?1, ?2, ?3, ?4)",
        [ST_SERIES_UNIT] = "UPDATE series SET unit = ?2 WHERE id = ?1",
        [ST_SERIES_SHOW] = "SELECT name, attributes, service, unit FROM series WHERE id = ?1",
        [ST_SERIES_NAMED] =
                "SELECT id, attributes, service, unit FROM series WHERE name = ?1 ORDER BY attributes",
        [ST_ROW_ADD] = "INSERT OR IGNORE INTO samples (id, data) VALUES (?1, ?2)",
        [ST_ROWS] = "SELECT id, data FROM samples WHERE id > ?1 AND id <= ?2 ORDER BY id",
        [ST_ROWS_OLDEST] = "SELECT id FROM samples WHERE id >= ?1 AND id <= ?2 ORDER BY id LIMIT 1",
        [ST_ROWS_DELETE] = "DELETE FROM samples WHERE id IN "
                           "(SELECT id FROM samples WHERE id >= ?1 AND id < ?2 LIMIT ?3)",
        [ST_LATEST] = "SELECT through, data FROM latest WHERE host = ?1",
        [ST_LATEST_PUT] = "INSERT OR REPLACE INTO latest (host, through, data) VALUES (?1, ?2, ?3)",
        [ST_NEXT_HOST] = "SELECT min(id), (SELECT count(*) FROM hosts) FROM hosts WHERE id > ?1",
        [ST_REGISTRY_PUT] = "INSERT OR REPLACE INTO registry (key, value) VALUES (?1, ?2)",
        [ST_REGISTRY_DELETE] = "DELETE FROM registry WHERE key = ?1",
        [ST_REGISTRY_LIST] = "SELECT key, value FROM registry ORDER BY key",
        [ST_OLD_EVENTS] = "DELETE FROM events WHERE id IN (SELECT id FROM (SELECT id, received FROM events "
                          "ORDER BY id "
                          "LIMIT ?2) WHERE received < ?1)",
        [ST_OLD_RECORDS] = "DELETE FROM records WHERE (spool, class, first) IN (SELECT spool, class, first "
                           "FROM records "
                           "WHERE changed < ?1 LIMIT ?2)",
        [ST_PART_FIND] = "SELECT id, number FROM run_parts WHERE run = ?1 AND invocation = ?2 AND host = ?3",
        [ST_PART_ADD] = "INSERT INTO run_parts (run, invocation, host, number, changed) VALUES (?1, ?2, ?3, ?4, 0)",
        [ST_PART_SET] = "UPDATE run_parts SET slice = coalesce(?2, slice), worker_id = coalesce(?3, worker_id), generation = "
                        "coalesce(generation, ?4), number = ?5, changed = ?6, bytes = bytes + ?7 WHERE id = ?1",
        [ST_LINE_ADD] = "INSERT INTO run_lines (run, part, number, missing, time, received, priority, text) "
                        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        [ST_LINES_UP] = LINE_QUERY("ASC"),
        [ST_LINES_DOWN] = LINE_QUERY("DESC"),
        [ST_LINE_BYTES] = "SELECT coalesce(sum(bytes), 0) FROM run_parts",
        [ST_LINES_OLDEST] = "SELECT id, part, received, length(CAST(text AS BLOB)) FROM run_lines ORDER BY id LIMIT ?1",
        [ST_PART_LESS] = "UPDATE run_parts SET bytes = max(0, bytes - ?2) WHERE id = ?1",
        [ST_LINES_DELETE] = "DELETE FROM run_lines WHERE id <= ?1",
        [ST_OLD_PARTS] = "DELETE FROM run_parts WHERE id IN (SELECT id FROM run_parts WHERE bytes = 0 AND changed < ?1 LIMIT ?2)",
        [ST_CAPTURE_FIND] = "SELECT id FROM captures WHERE episode = ?1 AND host = ?2 AND round = ?3",
        [ST_CAPTURE_COUNT] = "SELECT count(*) FROM captures WHERE host = ?1 AND received > ?2",
        [ST_CAPTURE_ADD] = "INSERT INTO captures (episode, slice, worker_id, host, run, generation, round, rounds, hosts, "
                           "slice_hosts, suspicion, taken, received, data) "
                           "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        [ST_CAPTURE_OWN] = "SELECT episode FROM captures WHERE run = ?1 AND generation IS ?2 AND slice = ?3 AND "
                           "taken BETWEEN ?4 AND ?5 AND episode LIKE 'own.%' ORDER BY taken LIMIT 1",
        [ST_CAPTURE_BYTES] = "SELECT coalesce(sum(length(data)), 0) FROM captures",
        [ST_CAPTURE_LAST] = "SELECT coalesce(max(id), 0) FROM captures",
        [ST_CAPTURES_NEWS] = "SELECT " CAPTURE_COLUMNS " FROM captures WHERE id > ?1 ORDER BY id LIMIT ?2",
        [ST_CAPTURES_OF] = "SELECT " CAPTURE_COLUMNS ", data FROM captures WHERE episode = ?1 AND id > ?2 ORDER BY id",
        [ST_CAPTURES_OLDEST] = "DELETE FROM captures WHERE episode = (SELECT episode FROM captures ORDER BY id LIMIT 1)",
        [ST_EPISODE_ADD] = "INSERT OR IGNORE INTO episodes (episode, run, generation, at, suspected, by, why, hosts, expected) "
                           "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        [ST_EPISODE_SLICE] = "INSERT OR IGNORE INTO episode_slices (slice, episode, at) VALUES (?1, ?2, ?3)",
        [ST_EPISODE_VERDICT] = "UPDATE episodes SET outcome = ?2, summary = ?3, report = ?4, diagnosed = ?5, confirmed = ?6 "
                               "WHERE episode = ?1",
        [ST_EPISODE_RECOVERED] = "UPDATE episodes SET recovered = ?2 WHERE episode = ?1",
        [ST_EPISODES] = "SELECT e.episode, e.run, e.generation, e.at, e.suspected, e.by, e.why, e.hosts, e.outcome, e.summary, "
                        "e.diagnosed, e.confirmed, e.recovered, "
                        "(SELECT count(DISTINCT host) FROM captures c WHERE c.episode = e.episode), "
                        "iif(?5, NULL, e.expected), iif(?5, NULL, e.report) FROM episodes e WHERE "
                        "(?1 IS NULL OR e.episode IN (SELECT episode FROM episode_slices WHERE slice = ?1)) "
                        "AND (?2 IS NULL OR e.episode = ?2) AND (NOT ?3 OR e.outcome IS NULL) ORDER BY e.at DESC, e.id DESC LIMIT ?4",
        [ST_EPISODES_OLDEST] = "DELETE FROM episodes WHERE id IN (SELECT id FROM episodes ORDER BY id DESC LIMIT 16 OFFSET ?1)",
        [ST_SLICES_OLDEST] = "DELETE FROM episode_slices WHERE episode NOT IN (SELECT episode FROM episodes)",
        [ST_PAGES] = "PRAGMA page_count",
        [ST_FREE_PAGES] = "PRAGMA freelist_count",
        [ST_VACUUM] = "PRAGMA incremental_vacuum(256)",
        [ST_EVENTS_UP + BY_NOTHING] = EVENT_QUERY("1", "ASC"),
        [ST_EVENTS_UP + BY_HOST] = EVENT_QUERY(EVENT_HOST, "ASC"),
        [ST_EVENTS_UP + BY_NAME] = EVENT_QUERY("e.name = ?4", "ASC"),
        [ST_EVENTS_UP + BY_SLICE] = EVENT_QUERY("e.slice = ?3", "ASC"),
        [ST_EVENTS_DOWN + BY_NOTHING] = EVENT_QUERY("1", "DESC"),
        [ST_EVENTS_DOWN + BY_HOST] = EVENT_QUERY(EVENT_HOST, "DESC"),
        [ST_EVENTS_DOWN + BY_NAME] = EVENT_QUERY("e.name = ?4", "DESC"),
        [ST_EVENTS_DOWN + BY_SLICE] = EVENT_QUERY("e.slice = ?3", "DESC"),
};

int sqlite_errno(int rc) {
        switch (rc & 0xff) { /* the primary code of an extended one */
        case SQLITE_OK:
        case SQLITE_ROW:
        case SQLITE_DONE:
                return 0;
        case SQLITE_FULL:
                return -ENOSPC;
        case SQLITE_READONLY:
                return -EROFS;
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
                return -EBUSY;
        case SQLITE_NOMEM:
                return -ENOMEM;
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
                return -EUCLEAN;
        case SQLITE_CANTOPEN:
        case SQLITE_PERM:
                return -EACCES;
        default:
                return -EIO;
        }
}

int statements_prepare(struct store *s) {
        for (size_t i = 0; i < _ST_MAX; i++) {
                int rc = sqlite3_prepare_v3(s->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[i],
                                            NULL);

                if (rc != SQLITE_OK)
                        return sqlite_errno(rc);
        }
        return 0;
}

void statements_finalize(struct store *s) {
        for (size_t i = 0; i < _ST_MAX; i++) {
                (void) sqlite3_finalize(s->statements[i]); /* repeats the last error of the statement */
                s->statements[i] = NULL;
        }
}

static int bind_one(sqlite3_stmt *q, int at, const struct bind *b) {
        switch (b->type) {
        case BIND_NULL:
                return sqlite3_bind_null(q, at);
        case BIND_INT:
                return sqlite3_bind_int64(q, at, b->i);
        case BIND_BLOB:
                return sqlite3_bind_blob64(q, at, b->blob, (sqlite3_uint64) b->i, SQLITE_STATIC);
        case BIND_TEXT: /* SQLite makes NULL of a NULL text */
                return sqlite3_bind_text(q, at, b->text, -1, SQLITE_STATIC);
        }
        return SQLITE_MISUSE;
}

int store_query(struct store *s, enum statement st, const struct bind *values, size_t n,
                sqlite3_stmt **ret) {
        sqlite3_stmt *q = s->statements[st];

        for (size_t i = 0; i < n; i++) {
                int rc = bind_one(q, (int) i + 1, &values[i]);

                if (rc != SQLITE_OK) {
                        store_end(&q);
                        return sqlite_errno(rc);
                }
        }
        *ret = q;
        return 0;
}

int store_row(sqlite3_stmt *q) {
        int rc = sqlite3_step(q);

        return rc == SQLITE_ROW ? 1 : sqlite_errno(rc);
}

void store_end(sqlite3_stmt **q) {
        if (!*q)
                return;
        (void) sqlite3_reset(*q); /* repeats the error of the last step, which was looked at */
        (void) sqlite3_clear_bindings(*q);
        *q = NULL;
}

int store_run(struct store *s, enum statement st, const struct bind *values, size_t n) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r;

        r = store_query(s, st, values, n, &q);
        return r < 0 ? r : store_row(q);
}

int store_ask(struct store *s, enum statement st, const struct bind *values, size_t n, int64_t *ret_a,
              int64_t *ret_b) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r;

        r = store_query(s, st, values, n, &q);
        if (r < 0)
                return r;
        r = store_row(q);
        if (r > 0) {
                *ret_a = sqlite3_column_int64(q, 0);
                if (ret_b)
                        *ret_b = sqlite3_column_int64(q, 1);
        }
        return r;
}

const char *column_text(sqlite3_stmt *q, int column) {
        return (const char *) sqlite3_column_text(q, column);
}

int64_t column_int(sqlite3_stmt *q, int column) {
        return sqlite3_column_type(q, column) == SQLITE_NULL ? -1 : sqlite3_column_int64(q, column);
}
