/* SPDX-License-Identifier: Apache-2.0 */
/* What a member of etcd answers. First byte: to what. What is taken holds what its readers rely on. */
#include <assert.h>

#include "etcd_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_kvs(Etcd__KeyValue **kvs, size_t n) {
        size_t len;

        for (size_t i = 0; i < n; i++) {
                assert(kvs[i]->key.len > 0);
                (void) etcd_key_behind(&kvs[i]->key, "/tpu/", &len);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct etcd_message m;

        if (size < 1)
                return 0;
        if (etcd_message_take((enum etcd_method)(data[0] % _ETCD_METHOD_MAX), data + 1, size - 1, &m) < 0) {
                assert(!m.range && !m.txn && !m.grant && !m.revoke && !m.keep && !m.watch);
                return 0;
        }
        assert(m.used <= ETCD_UNPACKED_MAX);
        if (m.range)
                expect_kvs(m.range->kvs, m.range->n_kvs);
        for (size_t i = 0; m.watch && i < m.watch->n_events; i++)
                expect_kvs(&m.watch->events[i]->kv, 1);
        for (size_t i = 0; m.txn && i < m.txn->n_responses; i++) {
                assert(m.txn->responses[i]->response_case != ETCD__RESPONSE_OP__RESPONSE__NOT_SET);
                if (m.txn->responses[i]->response_case == ETCD__RESPONSE_OP__RESPONSE_RANGE)
                        expect_kvs(m.txn->responses[i]->range->kvs, m.txn->responses[i]->range->n_kvs);
        }
        etcd_message_clear(&m);
        return 0;
}
