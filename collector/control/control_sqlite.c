/* SPDX-License-Identifier: Apache-2.0 */
/* One of the two implementations of control_store.h. */
#include "control_store.h"
#include "log.h"

struct control_sqlite {
        struct control_store base; /* the first member */
        struct store *store;
};

static struct store *database_of(const struct control_store *s) {
        return ((const struct control_sqlite *) s)->store;
}

static int on_row(const char *key, const char *value, void *userdata) {
        json_t *v = json_loads(value, JSON_DECODE_ANY, NULL);

        if (!v) {
                log_error("registry: a record is left out: %s: it is no JSON", key);
                return 0;
        }
        return json_object_set_new(userdata, key, v) < 0 ? -ENOMEM : 0;
}

static int sqlite_start(struct control_store *s) {
        json_auto_t *records = json_object();
        int r = records ? store_list_registry(database_of(s), on_row, records) : -ENOMEM;

        if (r >= 0)
                r = s->events->led(records, s->userdata);
        return r < 0 ? r : 0;
}

static bool sqlite_leads(const struct control_store *s) {
        (void) s;
        return true;
}

static int write_record(struct store *t, const char *key, const json_t *value) {
        _cleanup_free_ char *text = json_is_null(value) ? NULL : json_dumps(value, JSON_COMPACT);

        if (!json_is_null(value) && !text)
                return -ENOMEM;
        return store_put_registry(t, key, text);
}

static int write_batch(struct control_store *s, const json_t *batch) {
        struct store *t = database_of(s);
        int r = store_begin(t);
        char why[STORE_WHY_MAX];
        const char *key;
        json_t *v;

        json_object_foreach ((json_t *) (uintptr_t) batch, key, v)
                if (r >= 0)
                        r = write_record(t, key, v);
        if (r >= 0)
                r = s->events->along(s->userdata);
        r = store_finish(t, r, why);
        if (r < 0)
                (void) snprintf(s->why, sizeof(s->why), "database: %.200s", why);
        return r;
}

static struct control_store *sqlite_free(struct control_store *s) {
        free(s);
        return NULL;
}

static const struct control_ops ops = {
        .takes_along = true,
        .start = sqlite_start,
        .leads = sqlite_leads,
        .write = write_batch,
        .free = sqlite_free,
};

int control_sqlite_new(struct store *store, struct control_store **ret) {
        struct control_sqlite *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        *c = (struct control_sqlite){ .base.ops = &ops, .store = store };
        *ret = &c->base;
        return 0;
}
