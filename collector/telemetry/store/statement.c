/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "statement.h"

#include "log.h"
#include "texts.h"

static const char schema[] =
#include "schema.def"
        ;

static int ask_number(sqlite3 *db, const char *question, int64_t fallback, int64_t *ret) {
        sqlite3_stmt *q = NULL;
        int rc;

        rc = sqlite3_prepare_v2(db, question, -1, &q, NULL);
        if (rc == SQLITE_OK) {
                rc = sqlite3_step(q);
                *ret = rc == SQLITE_ROW ? sqlite3_column_int64(q, 0) : fallback;
        }
        (void) sqlite3_finalize(q); /* repeats the error of the step */
        return sqlite_errno(rc);
}

static int check_newer(struct store *s, const char *path, int64_t version, char why[static 256]) {
        int64_t oldest_reader;
        int r = ask_number(s->db, "SELECT value FROM meta WHERE key = 'oldest_reader'", INT64_MAX,
                           &oldest_reader);

        if (r < 0)
                return r;
        if (oldest_reader <= STORE_SCHEMA)
                return 0;
        return text_fail(why, 256, -ENOTRECOVERABLE,
                         "%.100s has schema version %lld, this program reads up to %d: install the newer "
                         "tpu-collectord, or name another file with --database",
                         path, (long long) version, STORE_SCHEMA);
}

static int check_schema(struct store *s, const char *path, char why[static 256]) {
        int64_t tables, application, version;
        int r = ask_number(s->db, "SELECT count(*) FROM sqlite_master", 0, &tables);

        if (r < 0)
                return r;
        if (tables == 0)
                return sqlite_errno(sqlite3_exec(s->db, schema, NULL, NULL, NULL));
        r = ask_number(s->db, "PRAGMA application_id", 0, &application);
        if (r < 0)
                return r;
        r = ask_number(s->db, "PRAGMA user_version", 0, &version);
        if (r < 0)
                return r;
        if (application != STORE_APPLICATION) {
                (void) snprintf(why, 256,
                                "%.120s is a database of another program: name another file with --database",
                                path);
                return -ENOTRECOVERABLE;
        }
        if (version < STORE_SCHEMA) {
                log_warning("%.100s has schema version %lld, which this program does not read", path,
                            (long long) version);
                return -EUCLEAN;
        }
        return version > STORE_SCHEMA ? check_newer(s, path, version, why) : 0;
}

int schema_prepare(struct store *s, const char *path, char why[static 256]) {
        int r = sqlite_errno(sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL));

        if (r < 0)
                return r;
        r = check_schema(s, path, why);
        if (r == 0) /* younger than the schema, whose other tables are as they were */
                r = sqlite_errno(sqlite3_exec(
                        s->db,
                        "CREATE TABLE IF NOT EXISTS handover (row INTEGER PRIMARY KEY);"
                        "CREATE INDEX IF NOT EXISTS run_parts_empty ON run_parts (host, changed) "
                        "WHERE bytes = 0",
                        NULL, NULL, NULL));
        if (r == 0)
                r = sqlite_errno(sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL));
        if (r < 0)
                (void) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL); /* r says what went wrong */
        return r;
}

/* --- Statements ------------------------------------------------------------------------------------ */

/* Each push has the step of a run that lives: one that is a minute older than the host's state is over. */
#define RUN_LIVES "state_time - step_time < 60000000"
#define HOST_COLUMNS \
        "id, name, slice, worker_id, accelerator_type, version, boot_id, state, reasons, " \
        "iif(" RUN_LIVES ", run, NULL), iif(" RUN_LIVES ", step, NULL), " \
        "first_seen, last_seen, max(state_time, identity_time, step_time)"
#define EVENT_QUERY(condition, order) \
        "SELECT e.id, h.name, e.slice, e.worker_id, e.time, e.received, e.name, e.severity, e.body, " \
        "e.attributes, e.service " \
        "FROM events e JOIN hosts h ON h.id = e.host WHERE " condition " AND e.id > ?1 " \
        "AND (?2 IS NULL OR h.name = ?2) AND (?3 IS NULL OR e.slice = ?3) AND (?4 IS NULL OR e.name = ?4) " \
        "ORDER BY e.id " order " LIMIT ?5"
#define EVENT_HOST "e.host = (SELECT id FROM hosts WHERE name = ?2)"

#define LINE_ROWS \
        "SELECT l.id, h.name, p.slice, p.worker_id, p.generation, p.invocation, l.number, l.missing, " \
        "l.time, l.priority, l.text, l.run " \
        "FROM run_lines l JOIN run_parts p ON p.id = l.part JOIN hosts h ON h.id = p.host "
#define LINE_QUERY(order) \
        LINE_ROWS \
        "WHERE l.run = ?1 AND l.id > ?2 AND (?3 IS NULL OR h.name = ?3) AND (?4 IS NULL OR p.slice = ?4) " \
        "AND (?5 IS NULL OR p.worker_id = ?5) ORDER BY l.id " order " LIMIT ?6"

#define CAPTURE_COLUMNS \
        "id, episode, slice, worker_id, host, run, generation, round, rounds, hosts, slice_hosts, " \
        "suspicion, taken"

static const char *const sql[_ST_MAX] = {
#define STATEMENT(name, text) [name] = text,
#include "statements.def"
#undef STATEMENT
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

        assert(st < _ST_MAX);

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

bool store_next(sqlite3_stmt *q, int *r) {
        int row = *r == 0 ? store_row(q) : 0;

        *r = row < 0 ? row : *r;
        return row > 0;
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
        int r = store_query(s, st, values, n, &q);

        return r < 0 ? r : store_row(q);
}

int store_ask(struct store *s, enum statement st, const struct bind *values, size_t n, int64_t *ret_a,
              int64_t *ret_b) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = store_query(s, st, values, n, &q);

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
