/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * For tests of the collector's store: the database of the test, read beside the code under test.
 */
#include <sqlite3.h>

#include "store.h"
#include "test.h"

/* The database; the test says where. */
static char path[64];

/* Runs sql on the database with a connection of its own; returns the number in the first column. */
static inline int64_t ask(const char *sql) {
        sqlite3 *db;
        sqlite3_stmt *q;
        int64_t n = -1;

        ASSERT_OK(sqlite3_open(path, &db));
        ASSERT_OK(sqlite3_prepare_v2(db, sql, -1, &q, NULL));
        if (sqlite3_step(q) == SQLITE_ROW)
                n = sqlite3_column_int64(q, 0);
        ASSERT_OK(sqlite3_finalize(q));
        ASSERT_OK(sqlite3_close(db));
        return n;
}
