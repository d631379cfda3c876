/* SPDX-License-Identifier: Apache-2.0 */
#include "statement.h"

int store_put_registry(struct store *s, const char *key, const char *value) {
        if (!value)
                return store_run(s, ST_REGISTRY_DELETE, BIND(TEXT(key)));
        return store_run(s, ST_REGISTRY_PUT, BIND(TEXT(key), TEXT(value)));
}

int store_list_registry(struct store *s, int (*visit)(const char *key, const char *value, void *userdata),
                        void *userdata) {
        _cleanup_query_ sqlite3_stmt *q = NULL;
        int r;

        r = store_query(s, ST_REGISTRY_LIST, NULL, 0, &q);
        if (r < 0)
                return r;
        while ((r = store_row(q)) > 0) {
                r = visit(column_text(q, 0), column_text(q, 1), userdata);
                if (r != 0)
                        return r;
        }
        return r;
}
