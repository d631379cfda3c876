/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>

#include "audit.h"
#include "log.h"

#define SEVERITY_INFO 9 /* OpenTelemetry, logs data model */
#define SEVERITY_WARN 13

static int store_it(const struct api *a, const char *body, const char *attributes, unsigned severity) {
        usec_t now = clock_real(a->clock);
        const struct store_event e = { .service = STORE_OWN_NAME,
                                       .name = "tpu.api.acted",
                                       .body = body,
                                       .attributes = attributes,
                                       .severity = severity,
                                       .time = now,
                                       .received = now };
        int64_t host;
        int r;

        r = store_begin(a->store);
        if (r >= 0)
                r = store_find_host(a->store, STORE_OWN_NAME, now, &host);
        if (r >= 0)
                r = store_add_event(a->store, host, NULL, &e);
        if (r >= 0)
                r = store_commit(a->store);
        if (r < 0)
                store_rollback(a->store);
        return r;
}

void audit_tell(const struct api *a, const char *method, const char *path, const char *by,
                const char *result, unsigned status) {
        char text[1200], call[400];
        json_t *body, *v;
        char *b = NULL, *w = NULL;

        (void) snprintf(call, sizeof(call), "%s %.380s", method, path);
        (void) snprintf(text, sizeof(text), "%s called %.300s: %u, %.300s", by, call, status, result);
        log_notice("%s", text);
        body = json_string(text);
        v = json_pack("{s:s, s:s, s:i, s:s}", "call", call, "caller", by, "status", (int) status, "result",
                      result);
        b = body ? json_dumps(body, JSON_ENCODE_ANY) : NULL;
        w = v ? json_dumps(v, JSON_COMPACT) : NULL;
        if (b && w && store_it(a, b, w, status < 300 ? SEVERITY_INFO : SEVERITY_WARN) >= 0)
                follow_news(a->follow);
        json_decref(body);
        json_decref(v);
        free(b);
        free(w);
}
