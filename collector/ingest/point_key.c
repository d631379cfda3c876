/* SPDX-License-Identifier: Apache-2.0 */
#include "point_key.h"

static void add(struct point_key *k, char type, const void *data, size_t len) {
        uint16_t size = (uint16_t) len;

        if (len > UINT16_MAX || k->full || sizeof(k->bytes) - k->len < len + 1 + sizeof(size)) {
                k->full = true;
                return;
        }
        k->bytes[k->len++] = (uint8_t) type;
        memcpy(k->bytes + k->len, &size, sizeof(size));
        k->len += sizeof(size);
        memcpy(k->bytes + k->len, data, len);
        k->len += len;
}

static void add_value(struct point_key *k, const Otlp__AnyValue *v) {
        uint64_t bits = 0;

        if (!v) {
                add(k, 'n', "", 0);
                return;
        }
        switch ((int) v->value_case) { /* protobuf-c's padding member has another name before 1.4 */
        case OTLP__ANY_VALUE__VALUE_STRING_VALUE:
                add(k, 's', v->string_value, strlen(v->string_value));
                break;
        case OTLP__ANY_VALUE__VALUE_BOOL_VALUE:
                add(k, 'b', v->bool_value ? "1" : "0", 1);
                break;
        case OTLP__ANY_VALUE__VALUE_INT_VALUE:
                add(k, 'i', &v->int_value, sizeof(v->int_value));
                break;
        case OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE:
                memcpy(&bits, &v->double_value, sizeof(bits));
                add(k, 'd', &bits, sizeof(bits));
                break;
        default:
                k->full = true;
        }
}

void point_key_begin(struct point_key *k, const char *service, const char *name) {
        k->len = 0;
        k->full = false;
        add(k, 'S', service, strlen(service));
        add(k, 'N', name, strlen(name));
}

void point_key_add_encoded(struct point_key *k, const void *data, size_t len) {
        add(k, 'e', data, len);
}

size_t point_key_end(struct point_key *k, Otlp__KeyValue *const *attributes, size_t n) {
        for (size_t i = 0; i < n && !k->full; i++) {
                add(k, 'k', attributes[i]->key, strlen(attributes[i]->key));
                add_value(k, attributes[i]->value);
        }
        return k->full ? 0 : k->len;
}
