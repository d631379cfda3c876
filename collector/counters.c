/* SPDX-License-Identifier: Apache-2.0 */
#include "counters.h"

static const unsigned statuses[COUNTERS_STATUSES_N] = COUNTERS_STATUSES;

void counters_answered(struct counters *c, enum counters_path path, unsigned status) {
        size_t i = 0;

        while (i < COUNTERS_STATUSES_N - 1 && statuses[i] != status)
                i++;
        c->requests[path][i]++;
}

static void print_requests(struct exposition *e, const struct counters *c) {
        static const char *const paths[_COUNTERS_PATH_MAX] = { "/v1/metrics", "/v1/logs", "other" };
        static const struct exposition_family family = { .name = "tpu_collectord_requests",
                                                         .help = "OTLP requests answered.",
                                                         .kind = EXPOSITION_COUNTER };

        exposition_family(e, &family);
        for (size_t i = 0; i < _COUNTERS_PATH_MAX; i++)
                for (size_t s = 0; s < COUNTERS_STATUSES_N; s++) {
                        char code[16] = "other";
                        const struct exposition_label labels[] = { { "path", paths[i] }, { "code", code } };

                        if (c->requests[i][s] == 0)
                                continue;
                        if (statuses[s])
                                (void) snprintf(code, sizeof(code), "%u", statuses[s]);
                        exposition_int(e, labels, ELEMENTSOF(labels), (int64_t) c->requests[i][s]);
                }
}

void counters_print(struct exposition *e, const struct counters *c) {
        const struct {
                const char *name, *unit, *help;
                uint64_t value;
        } counted[] = {
                { "tpu_collectord_received_bytes", "bytes", "Bytes of OTLP bodies, as they came.", c->bytes },
                { "tpu_collectord_points", NULL, "Metric points stored.", c->points },
                { "tpu_collectord_events", NULL, "Log records stored, but for lines of runs.", c->events },
                { "tpu_collectord_run_lines", NULL, "Lines that runs printed, stored.", c->lines },
                { "tpu_collectord_captures", NULL, "Captures of stacks stored.", c->captures },
                { "tpu_collectord_rejected", NULL, "Points and log records told back as rejected.",
                  c->rejected },
                { "tpu_collectord_commits", NULL, "Transactions committed.", c->commits },
                { "tpu_collectord_duplicates", NULL, "Pushes that were stored before and answered 200.",
                  c->duplicates },
                { "tpu_collectord_databases_replaced", NULL, "Damaged databases that were moved aside.",
                  c->started_over },
        };

        print_requests(e, c);
        for (size_t i = 0; i < ELEMENTSOF(counted); i++) {
                const struct exposition_family f = { .name = counted[i].name,
                                                     .unit = counted[i].unit,
                                                     .help = counted[i].help,
                                                     .kind = EXPOSITION_COUNTER };

                exposition_family(e, &f);
                exposition_int(e, NULL, 0, (int64_t) counted[i].value);
        }
}
