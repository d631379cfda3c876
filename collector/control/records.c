/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "inside.h"

#define FORGOTTEN_MAX 1024 /* records that are gone and still published as gone */

int records_init(struct records *t) {
        t->index = json_object();
        return t->index ? 0 : -ENOMEM;
}

static void unlink_record(struct records *t, struct record *r) {
        *(r->newer ? &r->newer->older : &t->newest) = r->older;
        *(r->older ? &r->older->newer : &t->oldest) = r->newer;
        r->newer = r->older = NULL;
}

static void link_newest(struct records *t, struct record *r) {
        r->older = t->newest;
        r->newer = NULL;
        *(t->newest ? &t->newest->newer : &t->oldest) = r;
        t->newest = r;
}

static void record_free(struct record *r) {
        json_decref(r->value);
        free(r->text);
        free(r);
}

void records_clear(struct records *t) {
        while (t->newest) {
                struct record *r = t->newest;

                unlink_record(t, r);
                record_free(r);
        }
        json_decref(TAKE_PTR(t->index));
}

struct record *records_find(const struct records *t, const char *key) {
        const json_t *at = json_object_get(t->index, key);

        return at ? (struct record *) (intptr_t) json_integer_value(at) : NULL;
}

static struct record *add_record(struct records *t, const char *key) {
        struct record *r = calloc(1, sizeof(*r) + strlen(key) + 1);

        if (!r)
                return NULL;
        memcpy(r->key, key, strlen(key) + 1);
        if (json_object_set_new(t->index, key, json_integer((json_int_t) (intptr_t) r)) < 0) {
                free(r);
                return NULL;
        }
        link_newest(t, r);
        return r;
}

/* The oldest of those that are gone; a host that is behind that is sent everything. */
static void drop_forgotten(struct records *t) {
        struct record *r = t->oldest;

        while (r && r->value)
                r = r->newer;
        if (!r)
                return;
        t->floor = MAX(t->floor, r->revision);
        assert(t->forgotten > 0);
        t->forgotten--;
        unlink_record(t, r);
        (void) json_object_del(t->index, r->key); /* it is there */
        record_free(r);
}

int records_put(struct records *t, const char *key, json_t *value, bool urgent, uint64_t revision) {
        struct record *r = records_find(t, key);

        assert(revision >= t->revision); /* the list is in its order */
        if (!r)
                r = add_record(t, key);
        else
                t->forgotten -= !r->value;
        if (!r) {
                json_decref(value);
                return -ENOMEM;
        }
        unlink_record(t, r);
        link_newest(t, r);
        json_decref(r->value);
        free(r->text);
        r->text = NULL;
        r->value = value;
        r->revision = revision;
        if (urgent)
                r->urgent = revision;
        t->revision = MAX(t->revision, revision);
        t->forgotten += !value;
        if (t->forgotten > FORGOTTEN_MAX)
                drop_forgotten(t);
        return 0;
}

const char *record_text(struct record *r) {
        if (!r->text)
                r->text = r->value ? json_dumps(r->value, JSON_COMPACT) : strdup("null");
        return r->text;
}

static bool member_differs(const json_t *a, const json_t *b, const char *key) {
        const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);

        return !x != !y || (x && !json_equal(x, y));
}

bool record_is_urgent(const char *key, const json_t *before, const json_t *now) {
        if (!before || !now)
                return now != NULL || startswith(key, "order/") || startswith(key, "site/");
        if (startswith(key, "slice/"))
                return member_differs(before, now, "state");
        if (startswith(key, "run/"))
                return member_differs(before, now, "state") || member_differs(before, now, "generation") ||
                       member_differs(before, now, "serial");
        return true;
}
