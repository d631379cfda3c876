/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte chooses metrics or logs; the rest is OTLP's JSON. What comes out is protobuf that the
 * receiver can walk. */
#include "json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define OUT_MAX 65536

static int on_resource(const struct ingest_resource *r, void *userdata) {
        (void) r;
        (void) userdata;
        return 0;
}

static int on_point(const struct ingest_point *p, void *userdata) {
        (void) p;
        (void) userdata;
        return 0;
}

static int on_event(const struct ingest_event *e, void *userdata) {
        (void) e;
        (void) userdata;
        return 0;
}

static int on_done(void *userdata) {
        (void) userdata;
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
        static const struct ingest_visitor visitor = {
                .resource = on_resource, .point = on_point, .event = on_event, .done = on_done
        };
        enum ingest_kind kind = len > 0 && data[0] & 1 ? INGEST_LOGS : INGEST_METRICS;
        char why[INGEST_WHY_MAX] = "";
        struct ingest_result result;
        uint8_t *out = NULL;
        size_t n = 0;
        int r;

        if (len == 0)
                return 0;
        r = json_to_protobuf(kind, data + 1, len - 1, OUT_MAX, &out, &n, why);
        if (r < 0) {
                if ((r != -EBADMSG && r != -ELOOP && r != -E2BIG) || !why[0] || out)
                        abort(); /* a refusal says why */
                return 0;
        }
        if (n > OUT_MAX)
                abort();
        r = ingest_request(kind, out, n, &visitor, &result);
        if (r == -EBADMSG && !strstr(result.why, "second resource") && !strstr(result.why, "well-formed"))
                abort(); /* only what JSON cannot say otherwise, either */
        free(out);
        return 0;
}
