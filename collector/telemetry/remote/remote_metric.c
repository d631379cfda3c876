/* SPDX-License-Identifier: Apache-2.0 */
#include "remote_metric.h"

static const struct metric_def *find_metric(const char *name, size_t len) {
        for (enum metric_id i = 0; i < _METRIC_MAX; i++) {
                const struct metric_def *d = metric_def(i);

                if (strlen(d->name) == len && memcmp(d->name, name, len) == 0)
                        return d;
        }
        return NULL;
}

const struct metric_def *remote_metric_of(const struct handed_series *one, const char **ret_part) {
        const char *dot = strrchr(one->name, '.');
        const struct metric_def *d;

        *ret_part = "";
        if (!streq(one->service, AGENT_SERVICE))
                return NULL;
        if (dot && (streq(dot, ".count") || streq(dot, ".sum"))) {
                d = find_metric(one->name, (size_t) (dot - one->name));
                if (d && d->kind == SAMPLE_HISTOGRAM) {
                        *ret_part = dot + 1;
                        return d;
                }
        }
        return find_metric(one->name, strlen(one->name));
}
