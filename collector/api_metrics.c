/* SPDX-License-Identifier: Apache-2.0 */
#include "api_json.h"

static int on_slice(const struct store_slice *s, void *userdata) {
        struct store_slice *sum = userdata;

        sum->hosts += s->hosts;
        sum->ready += s->ready;
        sum->degraded += s->degraded;
        sum->unfit += s->unfit;
        sum->unknown += s->unknown;
        sum->silent += s->silent;
        return 0;
}

static int print(const struct api *a, const struct counters_print *p) {
        usec_t now = clock_real(a->clock), silent = API_SILENT_SECONDS * USEC_PER_SEC;
        struct store_slice sum = { 0 };
        struct store_size size;
        int r;

        r = store_list_slices(a->store, now > silent ? now - silent : 0, on_slice, &sum);
        if (r == 0)
                r = store_size(a->store, &size);
        if (r < 0)
                return r;
        counters_print(p, a->counters);
        counters_print_labels(
                p, "hosts", "Hosts by what their agents said last; silent ones are counted apart.", "state",
                (const struct counters_labelled[]) { { "ready", (double) sum.ready },
                                                    { "degraded", (double) sum.degraded },
                                                    { "unfit", (double) sum.unfit },
                                                    { "unknown", (double) sum.unknown },
                                                    { "silent", (double) sum.silent } },
                5);
        counters_print_one(p, "database_bytes", "gauge", "Size of the database file.", (double) size.file);
        counters_print_one(p, "database_used_bytes", "gauge",
                           "The same without free pages, what RetainBytes= limits.", (double) size.used);
        counters_print_one(p, "retention_ratio", "gauge", "What RetainBytes= leaves of the ages of series.",
                           size.squeeze);
        counters_print_one(p, "damaged_rows", "gauge",
                           "Rows of series that could not be read since the start.",
                           (double) size.damaged_rows);
        if (p->open_metrics)
                fputs("# EOF\n", p->f);
        return 0;
}

void api_metrics(const struct api *a, bool open_metrics, struct http_reply *reply) {
        struct counters_print p = { .open_metrics = open_metrics };
        char *text = NULL;
        size_t len = 0;
        int r;

        p.f = open_memstream(&text, &len);
        if (!p.f) {
                api_reply_result(reply, a, -ENOMEM, NULL);
                return;
        }
        r = print(a, &p);
        if (fclose(p.f) != 0)
                r = -ENOMEM;
        if (r < 0) {
                free(text);
                api_reply_result(reply, a, r, NULL);
                return;
        }
        *reply = (struct http_reply) {
                .status = 200,
                .content_type = open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                             : "text/plain; version=0.0.4; charset=utf-8",
                .body = text,
                .len = len
        };
}
