/* SPDX-License-Identifier: Apache-2.0 */
#include "counters.h"

static const unsigned statuses[COUNTERS_STATUSES_N] = COUNTERS_STATUSES;

void counters_answered(struct counters *c, enum counters_path path, unsigned status) {
        size_t i = 0;

        while (i < COUNTERS_STATUSES_N - 1 && statuses[i] != status)
                i++;
        c->requests[path][i]++;
}

static void print_requests(FILE *f, const struct counters *c) {
        static const char *const paths[_COUNTERS_PATH_MAX] = { "/v1/metrics", "/v1/logs", "other" };

        fputs("# HELP tpu_collectord_requests_total OTLP requests answered.\n# TYPE "
              "tpu_collectord_requests_total counter\n",
              f);
        for (size_t p = 0; p < _COUNTERS_PATH_MAX; p++)
                for (size_t s = 0; s < COUNTERS_STATUSES_N; s++) {
                        char code[16] = "other";

                        if (c->requests[p][s] == 0)
                                continue;
                        if (statuses[s])
                                (void) snprintf(code, sizeof(code), "%u", statuses[s]);
                        fprintf(f, "tpu_collectord_requests_total{path=\"%s\",code=\"%s\"} %" PRIu64 "\n",
                                paths[p], code, c->requests[p][s]);
                }
}

static void print_one(FILE *f, const char *name, const char *help, uint64_t value) {
        fprintf(f,
                "# HELP tpu_collectord_%s_total %s\n# TYPE tpu_collectord_%s_total "
                "counter\ntpu_collectord_%s_total %" PRIu64 "\n",
                name, help, name, name, value);
}

int counters_text(const struct counters *c, char **ret, size_t *ret_len) {
        _cleanup_free_ char *text = NULL;
        size_t len;
        FILE *f;

        f = open_memstream(&text, &len);
        if (!f)
                return -errno;
        print_requests(f, c);
        print_one(f, "received_bytes", "Bytes of OTLP bodies, as they came.", c->bytes);
        print_one(f, "points", "Metric points stored.", c->points);
        print_one(f, "events", "Log records stored.", c->events);
        print_one(f, "rejected", "Points and log records told back as rejected.", c->rejected);
        print_one(f, "commits", "Transactions committed.", c->commits);
        print_one(f, "duplicates", "Pushes that were stored before and answered 200.", c->duplicates);
        print_one(f, "databases_replaced", "Damaged databases that were moved aside.", c->started_over);
        if (fclose(f) != 0)
                return -errno;
        *ret = TAKE_PTR(text);
        *ret_len = len;
        return 0;
}
