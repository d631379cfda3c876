/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The tables, their version, and what is refused. Inside the room only.
 */
#include "statement.h"

/*
 * Makes or checks the schema of an open database: 0; -ENOTRECOVERABLE with a sentence in why; -EUCLEAN: an older
 * schema; or SQLite's -errno (why untouched).
 */
int schema_prepare(struct store *s, const char *path, char why[static 256]);
