/* SPDX-License-Identifier: Apache-2.0 */
#include "json_text.h"
#include "keep.h"
#include "keep_inside.h"

static int send_some(struct keep *k);

void keep_init(struct keep *k, const struct keep_options *o) {
        *k = (struct keep){ .o = *o };
}

static void clear_ops(struct keep *k) {
        for (size_t i = 0; i < k->n_ops; i++) {
                free(k->ops[i].key);
                free(k->ops[i].text);
        }
        free(TAKE_PTR(k->ops));
        k->n_ops = k->at = k->n_sent = 0;
}

void keep_clear(struct keep *k) {
        k->o.port.cancel(k->o.port.link, ETCD_LANE_RECORDS);
        clear_ops(k);
        json_decref(k->records);
        json_decref(k->pieces);
        json_decref(k->large);
        *k = (struct keep){ .o = k->o };
}

/* --- What is to be written ----------------------------------------------------------------------------- */

/* What others rest on first; what is forgotten last. */
static unsigned order_of(const char *key, bool deleted) {
        static const char *const first[] = { "slot/", LARGE_PREFIX, "slice/", "intent/", "run/" };

        for (unsigned i = 0; !deleted && i < ELEMENTSOF(first); i++)
                if (startswith(key, first[i]))
                        return i;
        return deleted ? ELEMENTSOF(first) + 1 : ELEMENTSOF(first);
}

int keep_add(struct keep *k, const char *key, char *text) {
        struct op *more = reallocarray(k->ops, k->n_ops + 1, sizeof(*more)), *o;

        if (more)
                k->ops = more;
        o = more ? &more[k->n_ops] : NULL;
        if (o)
                *o = (struct op){ .key = strdup(key), .text = text, .order = order_of(key, !text) };
        if (!o || !o->key) {
                free(text);
                return -ENOMEM;
        }
        k->n_ops++;
        return 0;
}

static int add_json(struct keep *k, const char *key, const json_t *v) {
        char *text = json_dumps(v, JSON_COMPACT);

        return text ? keep_add(k, key, text) : -ENOMEM;
}

static int forget_pieces(struct keep *k, const char *key, const char *number, const json_t *whole) {
        json_t *pieces = json_object(), *head = NULL, *v;
        const char *piece;
        int r = pieces ? large_split(key, whole, number, &head, pieces) : -ENOMEM;

        json_object_foreach (pieces, piece, v)
                if (r >= 0)
                        r = keep_add(k, piece, NULL);
        json_decref(head);
        json_decref(pieces);
        return r;
}

/* Whether the lists of both are alike, so that the pieces may stay. */
static bool same_lists(const char *key, const json_t *a, const json_t *b) {
        if (startswith(key, "run/"))
                return json_equal(json_object_get(a, "slices"), json_object_get(b, "slices"));
        return json_equal(json_object_get(a, "roster"), json_object_get(b, "roster")) &&
               json_equal(json_object_get(a, "missing"), json_object_get(b, "missing"));
}

static int add_large(struct keep *k, const char *key, const json_t *v, const json_t *old) {
        bool same = old && same_lists(key, json_object_get(old, "value"), v);
        json_t *pieces = json_object(), *head = NULL, *piece;
        const char *piece_key;
        char number[32];
        int r;

        (void) snprintf(number, sizeof(number), "%" PRIu64 ".%" PRIu64, k->term, k->number + 1);
        r = pieces ? large_split(key, v, same ? json_text_of(old, "number") : number, &head, pieces) :
                     -ENOMEM;
        if (r >= 0)
                r = add_json(k, key, head);
        json_object_foreach (pieces, piece_key, piece)
                if (r >= 0 && !same)
                        r = add_json(k, piece_key, piece);
        if (r >= 0 && old && !same)
                r = forget_pieces(k, key, json_text_of(old, "number"), json_object_get(old, "value"));
        if (r >= 0 && !same)
                r = json_object_set_new(k->large, key,
                                        json_pack("{s:s, s:O}", "number", number, "value", v)) < 0 ?
                            -ENOMEM :
                            0;
        json_decref(head);
        json_decref(pieces);
        return r;
}

static int add_record(struct keep *k, const char *key, const json_t *v) {
        json_t *old = json_incref(json_object_get(k->large, key));
        char *text = json_is_null(v) ? NULL : json_dumps(v, JSON_COMPACT);
        int r;

        if (!json_is_null(v) && !text)
                r = -ENOMEM;
        else if (text && strlen(text) > LARGE_TEXT &&
                 (startswith(key, "run/") || startswith(key, "slice/"))) {
                free(text);
                r = add_large(k, key, v, old);
        } else if (text && strlen(text) > KEEP_BYTES) {
                free(text);
                r = -EMSGSIZE;
        } else {
                r = keep_add(k, key, text);
                if (r >= 0 && old)
                        r = forget_pieces(k, key, json_text_of(old, "number"),
                                          json_object_get(old, "value"));
                if (r >= 0 && old)
                        r = json_object_del(k->large, key);
        }
        json_decref(old);
        return r;
}

static int by_order(const void *a, const void *b) {
        const struct op *x = a, *y = b;

        return x->order != y->order ? (x->order < y->order ? -1 : 1) : strcmp(x->key, y->key);
}

/* --- One transaction after the other ------------------------------------------------------------------- */

static void writing_ended(struct keep *k, int error, const char *why) {
        clear_ops(k);
        /*
         * which pieces are there is not known: they are written anew, and what is left over goes with the
         * next load
         */
        if (error < 0)
                (void) json_object_clear(k->large);
        k->o.wrote(error, why, k->o.userdata);
}

static void path_of(const struct keep *k, const char *key,
                    char ret[static GATEWAY_KEY_MAX + LARGE_KEY_MAX]) {
        (void) snprintf(ret, GATEWAY_KEY_MAX + LARGE_KEY_MAX, "%s%s", k->o.prefix, key);
}

static json_t *op_json(const struct keep *k, const struct op *o) {
        char path[GATEWAY_KEY_MAX + LARGE_KEY_MAX];

        path_of(k, o->key, path);
        return o->text ? gateway_put(path, o->text, 0) : gateway_delete(path);
}

/* From at on, as many as one transaction may hold; at least one. */
static json_t *ops_json(struct keep *k) {
        char path[GATEWAY_KEY_MAX + LARGE_KEY_MAX], number[80];
        json_t *list = json_array();
        size_t bytes = 0, i = k->at;
        int r = list ? 0 : -ENOMEM;

        for (; r == 0 && i < k->n_ops && i < k->at + KEEP_OPS; i++) {
                bytes += strlen(k->ops[i].key) + (k->ops[i].text ? strlen(k->ops[i].text) : 0);
                if (i > k->at && bytes > KEEP_BYTES)
                        break;
                r = json_array_append_new(list, op_json(k, &k->ops[i]));
        }
        k->n_sent = i - k->at;
        path_of(k, KEEP_WRITTEN, path);
        (void) snprintf(number, sizeof(number), "{\"v\":1,\"term\":%" PRIu64 ",\"number\":%" PRIu64 "}",
                        k->term, k->number);
        if (r == 0)
                r = json_array_append_new(list, gateway_put(path, number, 0));
        if (r == 0)
                return list;
        json_decref(list);
        return NULL;
}

static void go_on(struct keep *k) {
        int r = send_some(k);

        if (r < 0)
                writing_ended(k, r, strerror(-r));
}

static void next_transaction(struct keep *k, int64_t written) {
        k->written = written;
        k->at += k->n_sent;
        if (k->at < k->n_ops)
                go_on(k);
        else
                writing_ended(k, 0, "");
}

/*
 * Another leads; or a transaction of this term landed that was given up: this very one, or one in front of
 * it.
 */
static void look_why_refused(struct keep *k, const struct gateway_answer *a) {
        struct gateway_kv leader, written;
        json_t *v;
        uint64_t number;

        if (gateway_kv(gateway_txn_kvs(a, 0), 0, &leader) < 0 || (uint64_t) leader.created != k->term) {
                clear_ops(k);
                k->o.deposed("another collector leads", k->o.userdata);
                return;
        }
        if (gateway_kv(gateway_txn_kvs(a, 1), 0, &written) < 0) { /* a person deleted it */
                k->written = 0;
                go_on(k);
                return;
        }
        v = gateway_value_json(&written);
        number = (uint64_t) gateway_int(v, "number");
        if ((uint64_t) gateway_int(v, "term") == k->term && number == k->number)
                next_transaction(k, written.modified);
        else {
                k->written = written.modified;
                go_on(k);
        }
        json_decref(v);
}

static void on_written(const struct gateway_answer *a, void *userdata) {
        struct keep *k = userdata;

        if (a->error < 0)
                writing_ended(k, a->error, a->why);
        else if (json_is_true(json_object_get(a->body, "succeeded")))
                next_transaction(k, a->revision);
        else
                look_why_refused(k, a);
}

static json_t *transaction(struct keep *k) {
        char leader[GATEWAY_KEY_MAX + LARGE_KEY_MAX], written[GATEWAY_KEY_MAX + LARGE_KEY_MAX];

        path_of(k, KEEP_LEADER, leader);
        path_of(k, KEEP_WRITTEN, written);
        return json_pack("{s:[o, o], s:o, s:[{s:o}, {s:o}]}", "compare",
                         gateway_compare(leader, "CREATE", (int64_t) k->term),
                         gateway_compare(written, "MOD", k->written), "success", ops_json(k), "failure",
                         "requestRange", gateway_range(leader), "requestRange", gateway_range(written));
}

static int send_some(struct keep *k) {
        json_t *q;

        if (!election_leads(k->o.election))
                return -ESTALE;
        k->number++;
        q = transaction(k);
        return q ? k->o.port.call(k->o.port.link, ETCD_LANE_RECORDS, "/v3/kv/txn", q, k->o.patience,
                                  on_written, k) :
                   -ENOMEM;
}

int keep_write(struct keep *k, const json_t *batch) {
        const char *key;
        json_t *v;
        int r = 0;

        json_object_foreach ((json_t *) (uintptr_t) batch, key, v)
                if (r >= 0)
                        r = add_record(k, key, v);
        if (r >= 0) {
                qsort(k->ops, k->n_ops, sizeof(*k->ops), by_order);
                r = send_some(k);
        }
        if (r >= 0)
                return 0;
        clear_ops(k);
        (void) json_object_clear(k->large); /* as in writing_ended() */
        return r;
}
