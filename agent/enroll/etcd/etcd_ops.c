/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd_ops.h"

#define COMPARES_MAX 4
#define TEXTS 3 /* of one operation: key, end, value */

/* One comparison, one operation each way. */
struct nested {
        Etcd__TxnRequest txn;
        Etcd__Compare compare, *compares[1];
        Etcd__RequestOp then, otherwise, *thens[1], *otherwises[1];
        Etcd__PutRequest put;
        Etcd__RangeRequest range;
};

struct etcd_ops {
        int error;
        size_t n_compare, n[2];
        Etcd__Compare compare[COMPARES_MAX], *compares[COMPARES_MAX];
        Etcd__RequestOp op[2][ETCD_OPS_MAX], *ops[2][ETCD_OPS_MAX];
        union {
                Etcd__PutRequest put;
                Etcd__RangeRequest range;
                Etcd__DeleteRangeRequest gone;
        } request[2][ETCD_OPS_MAX];
        struct nested *nested[2]; /* at most one of a branch */
        size_t n_texts;
        char *texts[TEXTS * 2 * ETCD_OPS_MAX + COMPARES_MAX];
};

static const char *keep(struct etcd_ops *o, const char *text) {
        char *copy = strdup(text);

        if (!copy) {
                o->error = -ENOMEM;
                return "";
        }
        o->texts[o->n_texts++] = copy;
        return copy;
}

static Etcd__Compare *add_compare(struct etcd_ops *o, const char *key) {
        Etcd__Compare *c;

        if (o->n_compare >= COMPARES_MAX) {
                o->error = -E2BIG;
                return NULL;
        }
        c = &o->compare[o->n_compare];
        etcd__compare__init(c);
        c->key = etcd_bytes(keep(o, key));
        o->compares[o->n_compare++] = c;
        return c;
}

void etcd_ops_if_created(struct etcd_ops *o, const char *key, int64_t revision) {
        Etcd__Compare *c = add_compare(o, key);

        if (!c)
                return;
        c->target = ETCD__COMPARE__TARGET__CREATE;
        c->target_union_case = ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
        c->create_revision = revision;
}

void etcd_ops_if_modified(struct etcd_ops *o, const char *key, int64_t revision) {
        Etcd__Compare *c = add_compare(o, key);

        if (!c)
                return;
        c->target = ETCD__COMPARE__TARGET__MOD;
        c->target_union_case = ETCD__COMPARE__TARGET_UNION_MOD_REVISION;
        c->mod_revision = revision;
}

/* The next operation of a branch; *ret_at is its place. */
static Etcd__RequestOp *add(struct etcd_ops *o, enum etcd_branch b, size_t *ret_at) {
        size_t at = o->n[b];

        if (at >= ETCD_OPS_MAX) {
                o->error = -E2BIG;
                return NULL;
        }
        etcd__request_op__init(&o->op[b][at]);
        o->ops[b][at] = &o->op[b][at];
        o->n[b]++;
        *ret_at = at;
        return &o->op[b][at];
}

void etcd_ops_put(struct etcd_ops *o, enum etcd_branch b, const char *key, const char *value,
                  int64_t lease) {
        Etcd__RequestOp *op;
        size_t at;

        op = add(o, b, &at);
        if (!op)
                return;
        op->request_case = ETCD__REQUEST_OP__REQUEST_PUT;
        op->put = &o->request[b][at].put;
        etcd__put_request__init(op->put);
        op->put->key = etcd_bytes(keep(o, key));
        op->put->value = etcd_bytes(keep(o, value));
        op->put->lease = lease;
}

void etcd_ops_range(struct etcd_ops *o, enum etcd_branch b, const char *key, const char *end) {
        Etcd__RequestOp *op;
        size_t at;

        op = add(o, b, &at);
        if (!op)
                return;
        op->request_case = ETCD__REQUEST_OP__REQUEST_RANGE;
        op->range = &o->request[b][at].range;
        etcd__range_request__init(op->range);
        op->range->key = etcd_bytes(keep(o, key));
        op->range->range_end =
                end ? etcd_bytes(keep(o, end)) : etcd_range_end(key, (char *) (uintptr_t) keep(o, key));
}

void etcd_ops_delete(struct etcd_ops *o, enum etcd_branch b, const char *key) {
        Etcd__RequestOp *op;
        size_t at;

        op = add(o, b, &at);
        if (!op)
                return;
        op->request_case = ETCD__REQUEST_OP__REQUEST_DELETE_RANGE;
        op->delete_range = &o->request[b][at].gone;
        etcd__delete_range_request__init(op->delete_range);
        op->delete_range->key = etcd_bytes(keep(o, key));
}

static struct nested *nested_new(const char *key, const char *value, int64_t lease) {
        struct nested *n = calloc(1, sizeof(*n));

        if (!n)
                return NULL;
        etcd__txn_request__init(&n->txn);
        etcd__compare__init(&n->compare);
        etcd__request_op__init(&n->then);
        etcd__request_op__init(&n->otherwise);
        etcd__put_request__init(&n->put);
        etcd__range_request__init(&n->range);
        n->compare.key = n->put.key = n->range.key = etcd_bytes(key);
        n->compare.target = ETCD__COMPARE__TARGET__CREATE;
        n->compare.target_union_case = ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
        n->put.value = etcd_bytes(value);
        n->put.lease = lease;
        n->then.request_case = ETCD__REQUEST_OP__REQUEST_PUT;
        n->then.put = &n->put;
        n->otherwise.request_case = ETCD__REQUEST_OP__REQUEST_RANGE;
        n->otherwise.range = &n->range;
        n->compares[0] = &n->compare;
        n->thens[0] = &n->then;
        n->otherwises[0] = &n->otherwise;
        n->txn.n_compare = n->txn.n_success = n->txn.n_failure = 1;
        n->txn.compare = n->compares;
        n->txn.success = n->thens;
        n->txn.failure = n->otherwises;
        return n;
}

void etcd_ops_put_new(struct etcd_ops *o, enum etcd_branch b, const char *key, const char *value,
                      int64_t lease) {
        Etcd__RequestOp *op;
        size_t at;

        op = add(o, b, &at);
        if (!op)
                return;
        if (o->nested[b]) {
                o->error = -E2BIG;
                return;
        }
        o->nested[b] = nested_new(keep(o, key), keep(o, value), lease);
        if (!o->nested[b]) {
                o->error = -ENOMEM;
                return;
        }
        op->request_case = ETCD__REQUEST_OP__REQUEST_TXN;
        op->txn = &o->nested[b]->txn;
}

size_t etcd_ops_count(const struct etcd_ops *o) {
        return MAX(o->n[ETCD_THEN], o->n[ETCD_ELSE]);
}

int etcd_ops_send(struct etcd_ops *o, struct etcd *c, etcd_done done, void *userdata) {
        Etcd__TxnRequest t = ETCD__TXN_REQUEST__INIT;

        if (o->error < 0)
                return o->error;
        t.n_compare = o->n_compare;
        t.compare = o->compares;
        t.n_success = o->n[ETCD_THEN];
        t.success = o->ops[ETCD_THEN];
        t.n_failure = o->n[ETCD_ELSE];
        t.failure = o->ops[ETCD_ELSE];
        return etcd_txn(c, &t, done, userdata);
}

struct etcd_ops *etcd_ops_new(void) {
        return calloc(1, sizeof(struct etcd_ops));
}

struct etcd_ops *etcd_ops_free(struct etcd_ops *o) {
        if (!o)
                return NULL;
        for (size_t i = 0; i < o->n_texts; i++)
                free(o->texts[i]);
        free(o->nested[ETCD_THEN]);
        free(o->nested[ETCD_ELSE]);
        free(o);
        return NULL;
}
