/* SPDX-License-Identifier: Apache-2.0 */
#include "json_text.h"
#include "keep.h"
#include "keep_inside.h"
#include "log.h"

static void ask_page(struct keep *k);

static void loading_ended(struct keep *k, int error, const char *why) {
        json_t *records = TAKE_PTR(k->records);

        json_decref(TAKE_PTR(k->pieces));
        k->o.loaded(error, records, why, k->o.userdata);
        json_decref(records);
}

/* A piece that no head names is left of a write that was broken off. */
static int forget_orphans(struct keep *k) {
        const char *key;
        json_t *v;
        int r = 0;

        json_object_foreach (k->pieces, key, v)
                if (json_is_object(v) && r >= 0)
                        r = keep_add(k, key, NULL);
        return r;
}

/* Pieces that a head names are told apart from those that nobody needs: they become true. */
static int join_record(struct keep *k, const char *key, const json_t *head) {
        char prefix[LARGE_KEY_MAX], why[80];
        const char *piece;
        json_t *whole, *v;
        void *next;
        int r = large_join(key, head, k->pieces, &whole);

        large_prefix(key, json_text_of(head, "pieces"), prefix);
        json_object_foreach_safe (k->pieces, next, piece, v)
                if (startswith(piece, prefix))
                        (void) json_object_set_new_nocheck(k->pieces, piece, json_true());
        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                (void) snprintf(why, sizeof(why), "%s",
                                r == -ENOENT ? "a piece of it is missing" : "its head cannot be understood");
                log_error("registry: a record is left out: %s: %s", key, why);
                return json_object_del(k->records, key);
        }
        r = json_object_set_new(
                k->large, key,
                json_pack("{s:s, s:O}", "number", json_text_of(head, "pieces"), "value", whole));
        if (r < 0) {
                json_decref(whole);
                return -ENOMEM;
        }
        return json_object_set_new(k->records, key, whole) < 0 ? -ENOMEM : 0;
}

static void join_all(struct keep *k) {
        const char *key;
        json_t *v;
        void *next;
        int r = 0;

        json_object_foreach_safe (k->records, next, key, v)
                if (r >= 0 && large_has_pieces(v))
                        r = join_record(k, key, v);
        if (r >= 0)
                r = forget_orphans(k);
        loading_ended(k, r, r < 0 ? strerror(-r) : "");
}

static int take_kv(struct keep *k, const struct gateway_kv *kv) {
        const char *key = kv->key + strlen(k->o.prefix);
        json_t *to, *v;

        if (!startswith(kv->key, k->o.prefix))
                return -EBADMSG;
        if (streq(key, KEEP_WRITTEN)) {
                k->written = kv->modified;
                return 0;
        }
        if (startswith(key, "ctl/"))
                return 0;
        if (json_object_size(k->records) + json_object_size(k->pieces) >= KEEP_RECORDS_MAX)
                return -E2BIG;
        v = gateway_value_json(kv);
        to = startswith(key, LARGE_PREFIX) ? k->pieces : k->records;
        if (v)
                return json_object_set_new(to, key, v) < 0 ? -ENOMEM : 0;
        log_error("registry: a record is left out: %s: it is no JSON object", key);
        return 0;
}

static void on_page(const struct gateway_answer *a, void *userdata) {
        struct keep *k = userdata;
        const json_t *kvs = json_object_get(a->body, "kvs");
        char before[sizeof(k->behind)];
        struct gateway_kv kv;
        int r = a->error;

        if (r < 0) {
                loading_ended(k, r, a->why);
                return;
        }
        memcpy(before, k->behind, sizeof(before));
        if (k->revision == 0)
                k->revision = a->revision;
        for (size_t i = 0; r >= 0 && i < json_array_size(kvs); i++) {
                r = gateway_kv(kvs, i, &kv);
                if (r >= 0)
                        r = take_kv(k, &kv);
                if (r >= 0)
                        memcpy(k->behind, kv.key, sizeof(k->behind));
        }
        if (r >= 0 && json_array_size(kvs) > 0 && strcmp(k->behind, before) <= 0)
                r = -EBADMSG; /* a page that does not go on would be asked for again and again */
        if (r < 0)
                loading_ended(k, r, r == -EBADMSG ? "etcd's answer cannot be understood" : strerror(-r));
        else if (json_is_true(json_object_get(a->body, "more")) && json_array_size(kvs) > 0)
                ask_page(k);
        else
                join_all(k);
}

static void ask_page(struct keep *k) {
        json_t *q = gateway_range_prefix(k->o.prefix, k->behind, KEEP_PAGE, k->revision);
        int r = q ? k->o.port.call(k->o.port.link, ETCD_LANE_RECORDS, "/v3/kv/range", q, k->o.patience,
                                   on_page, k) :
                    -ENOMEM;

        if (r < 0)
                loading_ended(k, r, strerror(-r));
}

void keep_load(struct keep *k, uint64_t term) {
        keep_clear(k);
        k->term = term;
        k->records = json_object();
        k->pieces = json_object();
        k->large = json_object();
        if (k->records && k->pieces && k->large)
                ask_page(k);
        else
                loading_ended(k, -ENOMEM, strerror(ENOMEM));
}
