/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "etcd_message.h"

static const char *const paths[_ETCD_METHOD_MAX] = {
        [ETCD_RANGE] = "/etcdserverpb.KV/Range",
        [ETCD_TXN] = "/etcdserverpb.KV/Txn",
        [ETCD_LEASE_GRANT] = "/etcdserverpb.Lease/LeaseGrant",
        [ETCD_LEASE_REVOKE] = "/etcdserverpb.Lease/LeaseRevoke",
        [ETCD_LEASE_KEEP] = "/etcdserverpb.Lease/LeaseKeepAlive",
        [ETCD_WATCH] = "/etcdserverpb.Watch/Watch",
};

const char *etcd_method_path(enum etcd_method m) {
        return paths[m];
}

/* --- Memory within a bound -------------------------------------------------------------------------- */

/* Once there was too little, nothing is given any more: so it is told apart from bytes that are wrong. */
static void *take_memory(void *data, size_t size) {
        size_t *used = data;

        if (*used > ETCD_UNPACKED_MAX || size > ETCD_UNPACKED_MAX - *used) {
                *used = SIZE_MAX;
                return NULL;
        }
        *used += size;
        return malloc(size);
}

static void give_memory(void *data, void *pointer) {
        (void) data;
        free(pointer);
}

static const ProtobufCMessageDescriptor *descriptor_of(enum etcd_method m) {
        switch (m) {
        case ETCD_RANGE:
                return &etcd__range_response__descriptor;
        case ETCD_TXN:
                return &etcd__txn_response__descriptor;
        case ETCD_LEASE_GRANT:
                return &etcd__lease_grant_response__descriptor;
        case ETCD_LEASE_REVOKE:
                return &etcd__lease_revoke_response__descriptor;
        case ETCD_LEASE_KEEP:
                return &etcd__lease_keep_alive_response__descriptor;
        case ETCD_WATCH:
                return &etcd__watch_response__descriptor;
        case _ETCD_METHOD_MAX:
                break;
        }
        return NULL;
}

/* --- What readers rely on --------------------------------------------------------------------------- */

static bool kvs_ok(Etcd__KeyValue **kvs, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (kvs[i]->key.len == 0)
                        return false;
        return true;
}

/* Transactions in transactions: one in another is all that we ask for. */
static bool responses_ok(const Etcd__TxnResponse *t, unsigned depth) {
        for (size_t i = 0; i < t->n_responses; i++) {
                const Etcd__ResponseOp *o = t->responses[i];

                switch ((int) o->response_case) { /* whose last value is the compiler's own */
                case ETCD__RESPONSE_OP__RESPONSE_RANGE:
                        if (!kvs_ok(o->range->kvs, o->range->n_kvs))
                                return false;
                        break;
                case ETCD__RESPONSE_OP__RESPONSE_TXN:
                        if (depth > 0 || !responses_ok(o->txn, depth + 1))
                                return false;
                        break;
                case ETCD__RESPONSE_OP__RESPONSE_PUT:
                case ETCD__RESPONSE_OP__RESPONSE_DELETE_RANGE:
                        break;
                default:
                        return false;
                }
        }
        return true;
}

static bool events_ok(const Etcd__WatchResponse *w) {
        for (size_t i = 0; i < w->n_events; i++)
                if (!w->events[i]->kv || w->events[i]->kv->key.len == 0)
                        return false;
        return true;
}

/* Sets the method's own member, and finds its header. */
static const Etcd__Header *sort_in(struct etcd_message *m, void *message, bool *ok) {
        *ok = true;
        switch (m->method) {
        case ETCD_RANGE:
                m->range = message;
                *ok = kvs_ok(m->range->kvs, m->range->n_kvs);
                return m->range->header;
        case ETCD_TXN:
                m->txn = message;
                *ok = responses_ok(m->txn, 0);
                return m->txn->header;
        case ETCD_LEASE_GRANT:
                m->grant = message;
                return m->grant->header;
        case ETCD_LEASE_REVOKE:
                m->revoke = message;
                return m->revoke->header;
        case ETCD_LEASE_KEEP:
                m->keep = message;
                return m->keep->header;
        case ETCD_WATCH:
                m->watch = message;
                *ok = events_ok(m->watch);
                return m->watch->header;
        case _ETCD_METHOD_MAX:
                break;
        }
        return NULL;
}

int etcd_message_take(enum etcd_method method, const uint8_t *data, size_t len, struct etcd_message *ret) {
        struct etcd_message m = { .method = method };
        ProtobufCAllocator bounded = { take_memory, give_memory, &m.used };
        const Etcd__Header *header;
        ProtobufCMessage *message;
        bool ok;

        assert(method < _ETCD_METHOD_MAX);
        *ret = m;
        message = protobuf_c_message_unpack(descriptor_of(method), &bounded, len, data);
        if (!message)
                return m.used == SIZE_MAX ? -E2BIG : -EBADMSG;
        header = sort_in(&m, message, &ok);
        if (!header || !ok) {
                etcd_message_clear(&m);
                return -EBADMSG;
        }
        m.revision = header->revision;
        *ret = m;
        return 0;
}

void etcd_message_clear(struct etcd_message *m) {
        void *const parts[] = { m->range, m->txn, m->grant, m->revoke, m->keep, m->watch };
        ProtobufCAllocator bounded = { take_memory, give_memory, &m->used };

        for (size_t i = 0; i < ELEMENTSOF(parts); i++)
                if (parts[i])
                        protobuf_c_message_free_unpacked(parts[i], &bounded);
        *m = (struct etcd_message){ .method = m->method };
}

/* --- Keys ------------------------------------------------------------------------------------------- */

const char *etcd_key_behind(const ProtobufCBinaryData *key, const char *prefix, size_t *ret_len) {
        size_t n = strlen(prefix);

        if (key->len < n || memcmp(key->data, prefix, n) != 0 || memchr(key->data, '\0', key->len))
                return NULL;
        *ret_len = key->len - n;
        return (const char *) key->data + n;
}

ProtobufCBinaryData etcd_range_end(const char *key, char *buf) {
        size_t n = strlen(key);

        assert(n > 0);
        if (key[n - 1] != '/')
                return etcd_bytes("");
        memcpy(buf, key, n + 1);
        buf[n - 1] = '/' + 1;
        return etcd_bytes(buf);
}

ProtobufCBinaryData etcd_bytes(const char *text) {
        return (ProtobufCBinaryData){ .data = (uint8_t *) (uintptr_t) text, .len = strlen(text) };
}
