/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "keep.h"
#include "grow.h"
#include "json_text.h"
#include "log.h"

#define KEEP_WRITTEN "ctl/written"
#define KEEP_LEADER "ctl/leader"

/* Else who leads could not read what was written, and nobody would lead. In base64, with key, revisions. */
_Static_assert(KEEP_PAGE *(KEEP_BYTES / 3 * 4 + 1024) <= GATEWAY_ANSWER_MAX,
               "a page of large records is read");

void keep_init(struct keep *k, const struct keep_options *o) {
        *k = (struct keep){ .o = *o };
}

static void clear_ops(struct keep *k) {
        for (size_t i = 0; i < k->n_ops; i++) {
                free(k->ops[i].key);
                json_decref(k->ops[i].request);
        }
        free(TAKE_PTR(k->ops));
        k->n_ops = k->at = k->n_sent = 0;
}

void keep_clear(struct keep *k) {
        k->o.port.cancel(k->o.port.link, ETCD_LANE_RECORDS);
        clear_ops(k);
        json_decref(k->records);
        *k = (struct keep){ .o = k->o };
}

static void path_of(const struct keep *k, const char *key, char ret[static GATEWAY_KEY_MAX]) {
        (void) snprintf(ret, GATEWAY_KEY_MAX, "%s%s", k->o.prefix, key);
}

/* --- Loading --------------------------------------------------------------------------------------- */

static void ask_page(struct keep *k);

static void loading_ended(struct keep *k, int error, const char *why) {
        json_auto_t *records = TAKE_PTR(k->records);

        k->o.loaded(error, records, why, k->o.userdata);
}

static int load_kv(struct keep *k, const struct gateway_kv *kv) {
        const char *key = kv->key + strlen(k->o.prefix);
        json_t *v;

        if (!startswith(kv->key, k->o.prefix))
                return -EBADMSG;
        if (streq(key, KEEP_WRITTEN)) {
                k->written = kv->modified;
                return 0;
        }
        if (startswith(key, "ctl/"))
                return 0;
        if (json_object_size(k->records) >= KEEP_RECORDS_MAX)
                return -E2BIG;
        v = gateway_value_json(kv);
        if (v)
                return json_object_set_new(k->records, key, v) < 0 ? -ENOMEM : 0;
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
                        r = load_kv(k, &kv);
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
                loading_ended(k, 0, "");
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
        if (k->records)
                ask_page(k);
        else
                loading_ended(k, -ENOMEM, strerror(ENOMEM));
}

/* --- What is to be written ------------------------------------------------------------------------- */

/* What others rest on first; what is forgotten last. */
static unsigned order_of(const char *key, bool deleted) {
        static const char *const first[] = { "slot/", "slice/", "intent/", "run/" };

        for (unsigned i = 0; !deleted && i < ELEMENTSOF(first); i++)
                if (startswith(key, first[i]))
                        return i;
        return deleted ? ELEMENTSOF(first) + 1 : ELEMENTSOF(first);
}

static int request_of(const struct keep *k, const char *key, const json_t *v, struct op *ret) {
        _cleanup_free_ char *text = json_is_null(v) ? NULL : json_dumps(v, JSON_COMPACT);
        char path[GATEWAY_KEY_MAX];

        if (!json_is_null(v) && !text)
                return -ENOMEM;
        path_of(k, key, path);
        ret->request = text ? gateway_put(path, text, 0, &ret->bytes) : gateway_delete(path);
        ret->bytes += strlen(path);
        return !ret->request ? -ENOMEM : ret->bytes > KEEP_BYTES ? -EMSGSIZE : 0;
}

static int add_record(struct keep *k, const char *key, const json_t *v) {
        struct op *o;

        if (grow_by_one(&k->ops, k->n_ops, sizeof(*k->ops)) < 0)
                return -ENOMEM;
        o = &k->ops[k->n_ops++];
        *o = (struct op){ .key = strdup(key), .order = order_of(key, json_is_null(v)) };
        return o->key ? request_of(k, key, v, o) : -ENOMEM;
}

static int by_order(const void *a, const void *b) {
        const struct op *x = a, *y = b;

        return COMPARE(x->order, y->order) ?: strcmp(x->key, y->key);
}

/* --- One transaction after the other --------------------------------------------------------------- */

static int send_some(struct keep *k);

static void writing_ended(struct keep *k, int error, const char *why) {
        clear_ops(k);
        k->o.wrote(error, why, k->o.userdata);
}

/* From at on, as many as one transaction may hold; at least one. */
static json_t *ops_json(struct keep *k) {
        char path[GATEWAY_KEY_MAX], number[80];
        json_auto_t *list = json_array();
        size_t bytes = 0, i = k->at;
        int r = list ? 0 : -ENOMEM;

        assert(k->at < k->n_ops);
        for (; r == 0 && i < k->n_ops && i < k->at + KEEP_OPS; i++) {
                bytes += k->ops[i].bytes;
                if (i > k->at && bytes > KEEP_BYTES)
                        break;
                r = json_array_append(list, k->ops[i].request);
        }
        k->n_sent = i - k->at;
        path_of(k, KEEP_WRITTEN, path);
        (void) snprintf(number, sizeof(number), "{\"v\":1,\"term\":%" PRIu64 ",\"number\":%" PRIu64 "}",
                        k->term, k->number);
        if (r == 0)
                r = json_array_append_new(list, gateway_put(path, number, 0, NULL));
        return r == 0 ? TAKE_PTR(list) : NULL;
}

static void go_on(struct keep *k) {
        int r = send_some(k);

        if (r < 0)
                writing_ended(k, r, strerror(-r));
}

static void next_transaction(struct keep *k, int64_t written) {
        assert(k->n_sent > 0 && k->at + k->n_sent <= k->n_ops);
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
        json_auto_t *v = NULL;
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

static json_t *make_transaction(struct keep *k) {
        char leader[GATEWAY_KEY_MAX], written[GATEWAY_KEY_MAX];

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
        q = make_transaction(k);
        return q ? k->o.port.call(k->o.port.link, ETCD_LANE_RECORDS, "/v3/kv/txn", q, k->o.patience,
                                  on_written, k) :
                   -ENOMEM;
}

int keep_write(struct keep *k, const json_t *batch) {
        const char *key;
        json_t *v;
        int r = 0;

        assert(k->n_ops == 0); /* the last batch was answered */
        json_object_foreach ((json_t *) (uintptr_t) batch, key, v)
                if (r >= 0)
                        r = add_record(k, key, v);
        if (r >= 0) {
                qsort(k->ops, k->n_ops, sizeof(*k->ops), by_order);
                r = send_some(k);
        }
        if (r < 0)
                clear_ops(k);
        return MIN(r, 0);
}
