/* SPDX-License-Identifier: Apache-2.0 */
#include "counters.h"

static const unsigned statuses[COUNTERS_STATUSES_N] = COUNTERS_STATUSES;

void counters_answered(struct counters *c, enum counters_path path, unsigned status) {
        size_t i = 0;

        while (i < COUNTERS_STATUSES_N - 1 && statuses[i] != status)
                i++;
        c->requests[path][i]++;
}

/* OpenMetrics names the family without the counter's suffix, and knows units. */
static void print_family(const struct counters_print *p, const char *name, const char *type,
                         const char *help) {
        bool total = streq(type, "counter");

        fprintf(p->f, "# HELP tpu_collectord_%s%s %s\n# TYPE tpu_collectord_%s%s %s\n", name,
                total && !p->open_metrics ? "_total" : "", help, name,
                total && !p->open_metrics ? "_total" : "", type);
}

void counters_print_one(const struct counters_print *p, const char *name, const char *type, const char *help,
                        double value) {
        print_family(p, name, type, help);
        fprintf(p->f, "tpu_collectord_%s%s %.17g\n", name, streq(type, "counter") ? "_total" : "", value);
}

void counters_print_labels(const struct counters_print *p, const char *name, const char *help,
                           const char *label, const struct counters_labelled *values, size_t n) {
        print_family(p, name, "gauge", help);
        for (size_t i = 0; i < n; i++)
                fprintf(p->f, "tpu_collectord_%s{%s=\"%s\"} %.17g\n", name, label, values[i].label,
                        values[i].value);
}

static void print_requests(const struct counters_print *p, const struct counters *c) {
        static const char *const paths[_COUNTERS_PATH_MAX] = { "/v1/metrics", "/v1/logs", "other" };

        print_family(p, "requests", "counter", "OTLP requests answered.");
        for (size_t i = 0; i < _COUNTERS_PATH_MAX; i++)
                for (size_t s = 0; s < COUNTERS_STATUSES_N; s++) {
                        char code[16] = "other";

                        if (c->requests[i][s] == 0)
                                continue;
                        if (statuses[s])
                                (void) snprintf(code, sizeof(code), "%u", statuses[s]);
                        fprintf(p->f, "tpu_collectord_requests_total{path=\"%s\",code=\"%s\"} %" PRIu64 "\n",
                                paths[i], code, c->requests[i][s]);
                }
}

void counters_print(const struct counters_print *p, const struct counters *c) {
        const struct {
                const char *name, *help;
                uint64_t value;
        } counted[] = {
                { "received_bytes", "Bytes of OTLP bodies, as they came.", c->bytes },
                { "points", "Metric points stored.", c->points },
                { "events", "Log records stored.", c->events },
                { "rejected", "Points and log records told back as rejected.", c->rejected },
                { "commits", "Transactions committed.", c->commits },
                { "duplicates", "Pushes that were stored before and answered 200.", c->duplicates },
                { "databases_replaced", "Damaged databases that were moved aside.", c->started_over },
        };

        print_requests(p, c);
        for (size_t i = 0; i < ELEMENTSOF(counted); i++)
                counters_print_one(p, counted[i].name, "counter", counted[i].help,
                                   (double) counted[i].value);
}
