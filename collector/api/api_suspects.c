/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/v1/suspects: hosts that fail again and again (suspects.h), with what was reported of each. */
#include <math.h>

#include "api_calls.h"
#include "events.h"
#include "json_text.h"
#include "suspects.h"

#define LISTED_MAX 200

struct last {
        int64_t event;
        char sentence[EVENT_SENTENCE_MAX];
};

static int on_last(const struct store_event_row *row, void *userdata) {
        struct last *l = userdata;
        json_auto_t *fields = row->id == l->event ?
                                      event_fields_of(row->event.body, row->event.attributes) :
                                      NULL;

        if (fields)
                (void) event_sentence_of(row->event.name, fields, l->sentence);
        return 0;
}

/* The sentence of one that is kept no more is empty. */
static int add_report(const struct api *a, const struct suspect_report *report, json_t **list) {
        struct last l = { .event = report->event };
        int r = store_list_events(a->store,
                                  &(struct store_event_filter){ .name = report->name,
                                                                .since = report->event - 1,
                                                                .limit = 1 },
                                  on_last, &l);

        if (r < 0)
                return r;
        *list = json_list_add(*list, json_pack("{s:s, s:i, s:o, s:s}", "name", report->name, "count",
                                               (int) report->count, "last", api_time(report->last),
                                               "sentence", l.sentence));
        return *list ? 0 : -ENOMEM;
}

static int add_suspect(const struct api *a, const struct suspect_host *q, json_t **list) {
        json_t *reports = json_array();
        int r = reports ? 0 : -ENOMEM;

        for (size_t i = 0; i < q->n_reports && r >= 0; i++)
                r = add_report(a, &q->reports[i], &reports);
        if (r < 0) {
                json_decref(reports);
                return r;
        }
        *list = json_list_add(*list, json_pack("{s:s, s:o, s:o, s:o, s:i, s:o}", "host", q->host, "slice",
                                               api_text(q->slice), "worker_id", api_number(q->worker),
                                               "score", json_real(round(q->score * 100) / 100), "runs",
                                               (int) q->runs, "reports", reports));
        return *list ? 0 : -ENOMEM;
}

void api_suspects(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        _cleanup_free_ struct suspect_host *suspects = NULL;
        usec_t now = clock_real(a->clock);
        json_t *list = json_array();
        size_t n = 0;
        int more = suspects_read(a->suspects, a->store, now), r = MIN(more, 0);

        (void) q;
        if (r >= 0)
                r = suspects_list(a->suspects, now, &suspects, &n);
        for (size_t i = 0; i < MIN(n, (size_t) LISTED_MAX) && r >= 0; i++)
                r = add_suspect(a, &suspects[i], &list);
        if (r >= 0)
                list = json_pack("{s:o, s:b}", "suspects", list, "cut", more > 0 || n > LISTED_MAX);
        if (r >= 0 && !list)
                r = -ENOMEM;
        api_reply_result(reply, a, r, list);
}
