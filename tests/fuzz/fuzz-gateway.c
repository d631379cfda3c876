/* SPDX-License-Identifier: Apache-2.0 */
/* Any answer of etcd's gateway, whole or as a stream: what is taken of it is bounded. The first byte says
 * which. */
#include "gateway.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at_kvs(const json_t *kvs) {
        struct gateway_kv kv;

        for (size_t i = 0; i < json_array_size(kvs) && gateway_kv(kvs, i, &kv) == 0; i++) {
                json_t *v = gateway_value_json(&kv);

                if (strlen(kv.key) >= sizeof(kv.key) || (v && !json_is_object(v)))
                        abort();
                json_decref(v);
        }
}

static void answer(const char *data, size_t size) {
        _cleanup_gateway_answer_ struct gateway_answer a = GATEWAY_ANSWER_NULL;

        gateway_parse(data + 1, size - 1, data[0] & 1 ? 200 : 503, &a);
        if ((a.error == 0) != (a.body != NULL) || !memchr(a.why, 0, sizeof(a.why)) ||
            (a.error < 0 && !a.why[0]))
                abort();
        look_at_kvs(json_object_get(a.body, "kvs"));
        for (size_t i = 0; i < 3; i++)
                look_at_kvs(gateway_txn_kvs(&a, i));
        (void) gateway_int(a.body, "TTL");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct gateway_lines l = { 0 };
        int r = 0;

        if (size < 1)
                return 0;
        if (data[0] & 2) {
                answer((const char *) data, size);
                return 0;
        }
        for (size_t at = 1; at < size && r >= 0; at += 7) {
                r = gateway_lines(&l, (const char *) data + at, MIN(size - at, (size_t) 7));
                if (l.len > GATEWAY_LINE_MAX)
                        abort();
        }
        gateway_lines_clear(&l);
        return 0;
}
