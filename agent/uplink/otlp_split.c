/* SPDX-License-Identifier: Apache-2.0 */
#include "otlp.pb-c.h"
#include "otlp_split.h"

typedef Otlp__ExportMetricsServiceRequest request_t;

static inline void request_freep(request_t **m) {
        if (*m)
                otlp__export_metrics_service_request__free_unpacked(*m, NULL);
}

static Otlp__ScopeMetrics *only_scope(const request_t *m) {
        if (!m || m->n_resource_metrics != 1 || m->resource_metrics[0]->n_scope_metrics != 1)
                return NULL;
        return m->resource_metrics[0]->scope_metrics[0];
}

int otlp_split_metrics(const void *data, size_t len, unsigned part, unsigned parts, uint8_t **ret,
                       size_t *ret_len) {
        _cleanup_(request_freep) request_t *m = otlp__export_metrics_service_request__unpack(NULL, len, data);
        Otlp__ScopeMetrics *s = only_scope(m);
        Otlp__Metric **metrics;
        size_t n, begin;
        uint8_t *out;

        if (!s || s->n_metrics < parts || part >= parts)
                return -ENODATA;
        metrics = s->metrics;
        n = s->n_metrics;
        begin = n * part / parts;
        s->metrics = metrics + begin;
        s->n_metrics = n * (part + 1) / parts - begin;
        out = malloc(otlp__export_metrics_service_request__get_packed_size(m));
        if (out) {
                *ret_len = otlp__export_metrics_service_request__pack(m, out);
                *ret = out;
        }
        s->metrics = metrics; /* all of it is freed */
        s->n_metrics = n;
        return out ? 0 : -ENOMEM;
}
