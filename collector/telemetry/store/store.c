/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "points.h"
#include "store_episodes.h"
#include "texts.h"

/*
 * How long to wait for another program that has the database open (sqlite3, a backup). Readers never hold up
 * the collector in WAL mode; a writer is a person's mistake, and the agents come back after 503.
 */
#define BUSY_MS 250

/* WAL + FULL: COMMIT returns after the fdatasync of the log. Checked: a file system may refuse WAL. */
static const char settings[] =
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF;"
        "PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -4096;";

static int check_wal(struct store *s) {
        sqlite3_stmt *q = NULL;
        bool wal;
        int rc;

        rc = sqlite3_prepare_v2(s->db, "PRAGMA journal_mode", -1, &q, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(q);
        wal = rc == SQLITE_ROW && streq((const char *) sqlite3_column_text(q, 0), "wal");
        (void) sqlite3_finalize(q);
        if (rc != SQLITE_ROW)
                return sqlite_errno(rc);
        return wal ? 0 : -EOPNOTSUPP;
}

static int prepare_database(struct store *s, const char *path, char why[static 256]) {
        int r;

        (void) sqlite3_busy_timeout(s->db, BUSY_MS);
        r = schema_prepare(s, path, why);
        if (r < 0)
                return r;
        r = sqlite_errno(sqlite3_exec(s->db, settings, NULL, NULL, NULL));
        if (r < 0)
                return r;
        r = check_wal(s);
        if (r == -EOPNOTSUPP)
                (void) snprintf(why, 256,
                                "%.120s: this file system cannot hold a write-ahead log: use a local one",
                                path);
        return r < 0 ? r : statements_prepare(s);
}

/* Those that are not in the database yet. */
static void forget_points(struct store *s) {
        s->row_host = 0;
        points_clear(&s->late);
}

static void store_close(struct store *s) {
        statements_finalize(s);
        (void) sqlite3_close(
                s->db); /* the log is moved into the database; when that fails, the next start does it */
        s->db = NULL;
        forget_points(s);
        series_clear(&s->series);
}

/* auto_vacuum counts only before there are tables. */
static int open_database(struct store *s, char why[static 256]) {
        int rc, r;

        why[0] = '\0';
        rc = sqlite3_open_v2(s->path, &s->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_exec(s->db, "PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL", NULL,
                                  NULL, NULL);
        r = rc == SQLITE_OK ? prepare_database(s, s->path, why) : sqlite_errno(rc);
        if (r < 0 && !why[0])
                (void) snprintf(why, 256, "%.120s: %.100s", s->path,
                                s->db ? sqlite3_errmsg(s->db) : "out of memory");
        return r;
}

/* Renames the database and its log; they belong together. */
static int move_aside(const struct store *s, char ret_aside[static 300]) {
        static const char *const files[] = { "", "-wal", "-shm" };
        char from[300], to[320];

        (void) snprintf(ret_aside, 300, "%s.damaged", s->path);
        if (access(ret_aside, F_OK) == 0)
                (void) snprintf(ret_aside, 300, "%s.damaged-again", s->path);
        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                (void) snprintf(from, sizeof(from), "%s%s", s->path, files[i]);
                (void) snprintf(to, sizeof(to), "%.*s%s", 300, ret_aside, files[i]);
                if (rename(from, to) < 0 && errno != ENOENT)
                        return -errno;
        }
        return 0;
}

int store_start_over(struct store *s, char ret_aside[static 300], char why[static 256]) {
        int r;

        store_close(s);
        r = move_aside(s, ret_aside);
        if (r < 0)
                return text_fail(why, 256, r, "%.120s is damaged and cannot be moved aside: %s", s->path,
                                 strerror(-r));
        return open_database(s, why);
}

int store_open(const char *path, struct store **ret, char ret_aside[static 300], char why[static 256]) {
        _cleanup_(store_freep) struct store *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return -ENOMEM;
        ret_aside[0] = '\0';
        s->tending = (struct tending) { .squeeze = 1, .oldest_ms = INT64_MAX };
        s->committed = true;
        (void) snprintf(s->path, sizeof(s->path), "%s", path);
        r = open_database(s, why);
        if (r == -EUCLEAN)
                r = store_start_over(s, ret_aside, why);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

int store_open_reading(const char *path, struct store **ret, char why[static 256]) {
        _cleanup_(store_freep) struct store *s = calloc(1, sizeof(*s));
        int rc, r;

        if (!s)
                return -ENOMEM;
        s->committed = true;
        (void) snprintf(s->path, sizeof(s->path), "%s", path);
        rc = sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
        (void) sqlite3_busy_timeout(s->db, BUSY_MS);
        r = rc == SQLITE_OK ? statements_prepare(s) : sqlite_errno(rc);
        if (r < 0) {
                (void) snprintf(why, 256, "%.120s: %.100s", s->path,
                                s->db ? sqlite3_errmsg(s->db) : "out of memory");
                return rc == SQLITE_CANTOPEN ? -ENOENT : r;
        }
        *ret = TAKE_PTR(s);
        return 0;
}

struct store *store_free(struct store *s) {
        if (!s)
                return NULL;
        store_close(s);
        samples_clear(&s->row);
        free(s);
        return NULL;
}

const char *store_error(const struct store *s) {
        return sqlite3_errmsg(s->db);
}

int store_begin(struct store *s) {
        s->committed = false;
        s->rows = s->parts = 0;
        return store_run(s, ST_BEGIN, NULL, 0);
}

int store_commit(struct store *s) {
        int r;

        assert(!s->committed); /* store_begin() was called */
        r = store_end_points(s);
        if (r == 0)
                r = store_run(s, ST_COMMIT, NULL, 0);
        s->committed = r == 0;
        return r;
}

int store_finish(struct store *s, int r, char *why) {
        if (r >= 0)
                r = store_commit(s);
        if (r >= 0)
                return 0;
        if (why) /* the rollback has words of its own */
                (void) snprintf(why, STORE_WHY_MAX, "%.250s",
                                r == -ENOMEM ? "out of memory" : store_error(s));
        store_rollback(s);
        return r;
}

void store_rollback(struct store *s) {
        forget_points(s);
        if (s->committed)
                return;
        if (!sqlite3_get_autocommit(s->db)) /* SQLite may have rolled back by itself (disk full) */
                (void) store_run(s, ST_ROLLBACK, NULL, 0);
        series_clear(&s->series); /* numbers that were given away in it mean nothing now */
        s->committed = true;
}

int store_mark(struct store *s) {
        assert(!s->committed);
        s->marked = series_mark(&s->series);
        s->rows = s->parts = 0;
        return store_run(s, ST_MARK, NULL, 0);
}

static int release_mark(struct store *s) {
        return store_run(s, ST_KEEP, NULL, 0);
}

int store_keep(struct store *s) {
        int r = store_end_points(s);

        return r < 0 ? r : release_mark(s);
}

int store_undo(struct store *s) {
        int r;

        forget_points(s);
        series_undo(&s->series, s->marked);
        r = store_run(s, ST_UNDO, NULL, 0);
        return r < 0 ? r : release_mark(s); /* undone, the mark still stands */
}

/* One above all others, as long as there is one; then those of hosts that were forgotten. */
static int find_number(struct store *s, int64_t *ret) {
        int64_t id, next;
        int r = store_ask(s, ST_HOST_LAST, NULL, 0, &id, NULL);

        if (r < 0)
                return r;
        if (id < STORE_HOSTS_MAX) {
                *ret = id + 1;
                return 0;
        }
        id = s->tending.free_host;
        if (id == 0)
                return -EDQUOT;
        r = store_ask(s, ST_HOST_AT, BIND(INT(id + 1)), &next, NULL);
        if (r < 0)
                return r;
        s->tending.free_host = r == 0 ? id + 1 : 0;
        *ret = id;
        return 0;
}

int store_find_host(struct store *s, const char *name, usec_t now, int64_t *ret) {
        int64_t id;
        int r = store_ask(s, ST_HOST_FIND, BIND(TEXT(name)), ret, NULL);

        if (r != 0)
                return r < 0 ? r : 0;
        r = find_number(s, &id);
        if (r >= 0)
                r = store_run(s, ST_HOST_ADD, BIND(TEXT(name), TIME(now), INT(id)));
        if (r < 0)
                return r;
        *ret = id;
        return 0;
}

int store_agent_seen(struct store *s, int64_t host, const struct store_identity *i, usec_t newest,
                     usec_t now) {
        int r = store_run(s, ST_HOST_AGENT, BIND(INT(host), TIME(now)));

        if (r < 0)
                return r;
        return store_run(s, ST_HOST_IDENTITY,
                         BIND(INT(host), TEXT(i->slice), KNOWN(i->worker_id), TEXT(i->accelerator_type),
                              TEXT(i->version), TEXT(i->boot_id), TIME(MIN(newest, now)), TEXT(i->machine)));
}

int store_find_twin(struct store *s, int64_t host, const struct store_identity *i, usec_t newest, usec_t now,
                    char ret[static STORE_HOST_MAX]) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r;

        if (!i->machine)
                return 0;
        r = store_query(s, ST_HOST_TWIN,
                        BIND(INT(host), TEXT(i->machine), TEXT(i->boot_id),
                             TIME(now - MIN(now, STORE_TWIN_AGE)), TIME(newest)),
                        &q);
        if (r >= 0)
                r = store_row(q);
        if (r > 0)
                (void) snprintf(ret, STORE_HOST_MAX, "%s", column_text(q, 0));
        return r;
}

int store_other_seen(struct store *s, int64_t host, usec_t now) {
        return store_run(s, ST_HOST_OTHER, BIND(INT(host), TIME(now)));
}

int store_add_event(struct store *s, int64_t host, const struct store_identity *i,
                    const struct store_event *e) {
        return store_run(s, ST_EVENT_ADD,
                         BIND(INT(host), TEXT(i ? i->slice : NULL), KNOWN(i ? i->worker_id : -1),
                              TIME(e->time), TIME(e->received), TEXT(e->service), TEXT(e->name),
                              INT(e->severity), TEXT(e->body), TEXT(e->attributes)));
}

int store_own_event(struct store *s, const struct event *e, const char *host, const char *slice,
                    int64_t worker, usec_t now) {
        const struct store_identity identity = { .slice = slice, .worker_id = worker };
        char sentence[EVENT_SENTENCE_MAX];
        json_auto_t *text = json_string(event_sentence(e, sentence)), *fields = event_to_json(e);
        _cleanup_free_ char *body = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL,
                            *attributes = fields ? json_dumps(fields, JSON_COMPACT) : NULL;
        const struct store_event stored = { .service = STORE_OWN_NAME,
                                            .name = event_def(e->id)->name,
                                            .body = body,
                                            .attributes = attributes,
                                            .severity = e->severity,
                                            .time = now,
                                            .received = now };
        int64_t id;
        int r = body && attributes ? 0 : -ENOMEM;

        if (r >= 0)
                r = store_find_host(s, *host ? host : STORE_OWN_NAME, now, &id);
        if (r == -EDQUOT)
                return 0; /* the record itself still says it */
        if (r >= 0)
                r = store_add_event(s, id, *slice ? &identity : NULL, &stored);
        return r < 0 ? r : 1;
}

int store_event_alone(struct store *s, const struct event *e, const char *host, const char *slice,
                      int64_t worker, usec_t now) {
        int r = store_begin(s);

        if (r >= 0)
                r = store_own_event(s, e, host, slice, worker, now);
        r = store_finish(s, r, NULL);
        return r < 0 ? r : 1;
}

int store_set_state(struct store *s, int64_t host, const char *state, usec_t time) {
        return store_run(s, ST_HOST_STATE, BIND(INT(host), TEXT(state), TIME(time)));
}

int store_set_reasons(struct store *s, int64_t host, const char *reasons, usec_t time) {
        return store_run(s, ST_HOST_REASONS, BIND(INT(host), TEXT(reasons), TIME(time)));
}

int store_set_step(struct store *s, int64_t host, const char *run, int64_t step, usec_t time) {
        return store_run(s, ST_HOST_STEP, BIND(INT(host), TEXT(run), INT(step), TIME(time)));
}

/* --- The registry's records ------------------------------------------------------------------------ */

int store_put_registry(struct store *s, const char *key, const char *value) {
        if (!value)
                return store_run(s, ST_REGISTRY_DELETE, BIND(TEXT(key)));
        return store_run(s, ST_REGISTRY_PUT, BIND(TEXT(key), TEXT(value)));
}

int store_list_registry(struct store *s, int (*visit)(const char *key, const char *value, void *userdata),
                        void *userdata) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r = store_query(s, ST_REGISTRY_LIST, NULL, 0, &q);

        while (store_next(q, &r))
                r = visit(column_text(q, 0), column_text(q, 1), userdata);
        return r;
}
