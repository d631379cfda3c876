/* SPDX-License-Identifier: Apache-2.0 */
#include "audit.h"
#include "log.h"

static int store_it(const struct api *a, const struct event *e) {
        int r = store_begin(a->store);

        if (r >= 0)
                r = store_tell(a->store, e, "", "", -1, clock_real(a->clock));
        if (r >= 0)
                r = store_commit(a->store);
        if (r < 0)
                store_rollback(a->store);
        return r;
}

void audit_tell(const struct api *a, const char *method, const char *path, const char *by,
                const char *result, unsigned status) {
        char call[400], sentence[EVENT_SENTENCE_MAX];
        const struct event *e = EVENT_AS(API_ACTED, status < 300 ? SEVERITY_INFO : SEVERITY_WARN,
                                         .call = call, .caller = by, .uid = EVENT_ABSENT,
                                         .pid = EVENT_ABSENT, .address = NULL, .status = status,
                                         .result = result);

        (void) snprintf(call, sizeof(call), "%s %.380s", method, path);
        log_notice("%s", event_sentence(e, sentence));
        if (store_it(a, e) >= 0)
                follow_news(a->follow);
}
