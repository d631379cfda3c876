/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte chooses metrics or logs; the rest is the request. */
#include "ingest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static uint64_t points, events;

static void check_text(const char *s, size_t max) {
        json_t *j = json_string(s); /* takes UTF-8 only */

        if (!j || strlen(s) > max)
                abort();
        json_decref(j);
}

static int on_resource(const struct ingest_resource *r, void *userdata) {
        (void) userdata;
        check_text(r->host, INGEST_NAME_MAX - 1);
        check_text(r->slice, INGEST_NAME_MAX - 1);
        if (r->worker_id < -1)
                abort();
        return 0;
}

static int on_point(const struct ingest_point *p, void *userdata) {
        (void) userdata;
        check_text(p->name, INGEST_NAME_MAX + 8);
        check_text(p->unit, INGEST_NAME_MAX - 1);
        if (p->attributes) /* else it is known */
                check_text(p->attributes, INGEST_ATTRIBUTES_MAX);
        points++;
        return points % 7 == 0 ? -EDQUOT : 0;
}

static bool is_known(const struct ingest_point *p, void *userdata) {
        (void) userdata;
        if (p->key_len == 0)
                abort();
        return ((const uint8_t *) p->key)[p->key_len - 1] % 2;
}

static int on_event(const struct ingest_event *e, void *userdata) {
        (void) userdata;
        check_text(e->name, INGEST_NAME_MAX - 1);
        check_text(e->body, INGEST_EVENT_MAX);
        check_text(e->attributes, INGEST_EVENT_MAX);
        if (e->severity > 24)
                abort();
        events++;
        return 0;
}

static int on_done(void *userdata) {
        (void) userdata;
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
        static const struct ingest_visitor visitor = {
                .resource = on_resource,
                .point = on_point,
                .known = is_known,
                .event = on_event,
                .done = on_done,
        };
        struct ingest_result result;
        int r;

        if (len == 0)
                return 0;
        points = events = 0;
        r = ingest_request(data[0] & 1 ? INGEST_LOGS : INGEST_METRICS, data + 1, len - 1, &visitor, &result);
        if (r < 0 && r != -ENOMEM && !result.why[0])
                abort(); /* a refusal says why */
        if (r == 0 && result.rows > points + events)
                abort();
        return 0;
}
