/* SPDX-License-Identifier: Apache-2.0 */
#include "schema.h"
#include "log.h"

#define WORD(x)   #x
#define NUMBER(x) WORD(x)

/*
 * Times are microseconds since 1970. "oldest_reader" is the lowest STORE_SCHEMA that may still use this
 * database: a later version that only adds columns or tables leaves it where it is, so that a downgrade works.
 *
 * A row of "samples" is one push of one host; its id says whose and when (points.h), so that what belongs
 * together lies together. "latest" is the last value of each series of a host in its rows up to "through".
 * "registry" is what the registry keeps (docs/registry.md): one row a record, its value JSON. "run_parts" and
 * "run_lines" are what runs print (store.h); "missing" numbers of its part were left out before a line.
 * "captures" and "episodes" are captures of hosts and the verdicts out of them (store_episodes.h).
 */
static const char schema[] =
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
        "INSERT INTO meta VALUES ('oldest_reader', " NUMBER(STORE_SCHEMA) ");"
        "CREATE TABLE hosts ("
        "  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, agent INTEGER NOT NULL DEFAULT 0,"
        "  slice TEXT, worker_id INTEGER, accelerator_type TEXT, version TEXT, boot_id TEXT, identity_time "
        "INTEGER NOT NULL DEFAULT 0,"
        "  state TEXT, state_time INTEGER NOT NULL DEFAULT 0,"
        "  reasons TEXT, reasons_time INTEGER NOT NULL DEFAULT 0,"
        "  run TEXT, step INTEGER, step_time INTEGER NOT NULL DEFAULT 0,"
        "  series INTEGER NOT NULL DEFAULT 0, first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL);"
        "CREATE TABLE events ("
        "  id INTEGER PRIMARY KEY AUTOINCREMENT, host INTEGER NOT NULL REFERENCES hosts, slice TEXT, "
        "worker_id INTEGER,"
        "  time INTEGER NOT NULL, received INTEGER NOT NULL, service TEXT NOT NULL, name TEXT NOT NULL, "
        "severity INTEGER NOT NULL,"
        "  body TEXT NOT NULL, attributes TEXT NOT NULL);"
        "CREATE INDEX events_by_host ON events (host);"
        "CREATE INDEX events_by_name ON events (name);"
        "CREATE INDEX events_by_slice ON events (slice);"
        "CREATE TABLE records ("
        "  spool TEXT NOT NULL, class TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, changed "
        "INTEGER NOT NULL,"
        "  PRIMARY KEY (spool, class, first)) WITHOUT ROWID;"
        "CREATE TABLE series ("
        "  id INTEGER PRIMARY KEY, name TEXT NOT NULL, attributes TEXT NOT NULL, service TEXT NOT NULL, "
        "unit TEXT NOT NULL,"
        "  UNIQUE (name, attributes, service));"
        "CREATE TABLE samples (id INTEGER PRIMARY KEY, data BLOB NOT NULL);"
        "CREATE TABLE latest (host INTEGER PRIMARY KEY, through INTEGER NOT NULL, data BLOB NOT NULL);"
        "CREATE TABLE registry (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE run_parts ("
        "  id INTEGER PRIMARY KEY, run TEXT NOT NULL, invocation TEXT NOT NULL, host INTEGER NOT NULL REFERENCES hosts,"
        "  slice TEXT, worker_id INTEGER, generation INTEGER, number INTEGER NOT NULL, changed INTEGER NOT NULL,"
        "  bytes INTEGER NOT NULL DEFAULT 0, UNIQUE (run, invocation, host));"
        "CREATE TABLE run_lines ("
        "  id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, part INTEGER NOT NULL, number INTEGER NOT NULL,"
        "  missing INTEGER NOT NULL, time INTEGER NOT NULL, received INTEGER NOT NULL, priority INTEGER NOT NULL,"
        "  text TEXT NOT NULL);"
        "CREATE INDEX run_lines_by_run ON run_lines (run);"
        "CREATE TRIGGER run_lines_gone AFTER DELETE ON run_lines BEGIN"
        "  UPDATE run_parts SET bytes = max(0, bytes - length(CAST(old.text AS BLOB))) WHERE id = old.part; END;"
        "CREATE TABLE captures ("
        "  id INTEGER PRIMARY KEY AUTOINCREMENT, episode TEXT NOT NULL, slice TEXT NOT NULL, worker_id INTEGER, host TEXT NOT NULL,"
        "  run TEXT NOT NULL, generation INTEGER, round INTEGER NOT NULL, rounds INTEGER NOT NULL, hosts INTEGER NOT NULL,"
        "  slice_hosts INTEGER NOT NULL, suspicion TEXT NOT NULL, taken INTEGER NOT NULL, received INTEGER NOT NULL,"
        "  data BLOB NOT NULL, UNIQUE (episode, host, round));"
        "CREATE INDEX captures_by_host ON captures (host, received);"
        "CREATE INDEX captures_by_run ON captures (run, taken);"
        "CREATE TABLE episodes ("
        "  id INTEGER PRIMARY KEY, episode TEXT NOT NULL UNIQUE, run TEXT NOT NULL, generation INTEGER, at INTEGER NOT NULL,"
        "  suspected INTEGER NOT NULL, by TEXT NOT NULL, why TEXT NOT NULL, hosts INTEGER NOT NULL, expected TEXT,"
        "  outcome TEXT, summary TEXT, report TEXT, diagnosed INTEGER NOT NULL DEFAULT 0, confirmed INTEGER NOT NULL DEFAULT 0,"
        "  recovered INTEGER NOT NULL DEFAULT 0);"
        "CREATE TABLE episode_slices (slice TEXT NOT NULL, episode TEXT NOT NULL, at INTEGER NOT NULL,"
        "  PRIMARY KEY (slice, episode)) WITHOUT ROWID;"
        "PRAGMA application_id = " NUMBER(STORE_APPLICATION) "; PRAGMA user_version = " NUMBER(STORE_SCHEMA) ";";

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
        int r;

        r = ask_number(s->db, "SELECT value FROM meta WHERE key = 'oldest_reader'", INT64_MAX,
                       &oldest_reader);
        if (r < 0)
                return r;
        if (oldest_reader <= STORE_SCHEMA)
                return 0;
        (void) snprintf(why, 256,
                        "%.100s has schema version %lld, this program reads up to %d: install the newer "
                        "tpu-collectord, "
                        "or name another file with --database",
                        path, (long long) version, STORE_SCHEMA);
        return -ENOTRECOVERABLE;
}

static int check(struct store *s, const char *path, char why[static 256]) {
        int64_t tables, application, version;
        int r;

        r = ask_number(s->db, "SELECT count(*) FROM sqlite_master", 0, &tables);
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
                log_warning("%.100s has schema version %lld, which this program does not read", path, (long long) version);
                return -EUCLEAN;
        }
        return version > STORE_SCHEMA ? check_newer(s, path, version, why) : 0;
}

int schema_prepare(struct store *s, const char *path, char why[static 256]) {
        int r;

        r = sqlite_errno(sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL));
        if (r < 0)
                return r;
        r = check(s, path, why);
        if (r == 0)
                r = sqlite_errno(sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL));
        if (r < 0)
                (void) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL); /* r says what went wrong */
        return r;
}
