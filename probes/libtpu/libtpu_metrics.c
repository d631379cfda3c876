/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "libtpu_answer.h"
#include "unpack_wire.h"

#define DEPTH_MAX 16 /* messages in one another: the deepest that we know has eight */

void libtpu_reader_init(struct libtpu_reader *r) {
        *r = (struct libtpu_reader){ .left_out = 0 };
        unpack_memory_init(&r->memory, LIBTPU_MEMORY_MAX);
}

void libtpu_reader_clear(struct libtpu_reader *r) {
        unpack_memory_clear(&r->memory);
}

void *libtpu_unpack(struct libtpu_reader *r, const ProtobufCMessageDescriptor *d, const void *data,
                    size_t len, int *ret_error) {
        void *m;

        if (len > LIBTPU_MESSAGE_MAX || wire_check(d, data, len, DEPTH_MAX) < 0) {
                *ret_error = -EBADMSG;
                return NULL;
        }
        unpack_memory_reset(&r->memory);
        m = protobuf_c_message_unpack(d, &r->memory.allocator, len, data);
        if (!m)
                *ret_error = r->memory.exhausted ? -E2BIG : -EBADMSG;
        return m;
}

/* --- Requests ------------------------------------------------------------------------------------------ */

size_t libtpu_metric_request(enum libtpu_metric id, bool process_only,
                             uint8_t buf[static LIBTPU_REQUEST_MAX]) {
        Libtpu__MetricRequest m = LIBTPU__METRIC_REQUEST__INIT;

        m.metric_name = (char *) (uintptr_t) libtpu_def(id)->name; /* protobuf-c only reads it */
        m.skip_node_aggregation = process_only;
        assert(libtpu__metric_request__get_packed_size(&m) <= LIBTPU_REQUEST_MAX);
        return libtpu__metric_request__pack(&m, buf);
}

size_t libtpu_list_request(uint8_t buf[static LIBTPU_REQUEST_MAX]) {
        const Libtpu__ListSupportedMetricsRequest m = LIBTPU__LIST_SUPPORTED_METRICS_REQUEST__INIT;

        return libtpu__list_supported_metrics_request__pack(&m, buf);
}

size_t libtpu_status_request(uint8_t buf[static LIBTPU_REQUEST_MAX]) {
        Libtpu__GetTpuRuntimeStatusRequest m = LIBTPU__GET_TPU_RUNTIME_STATUS_REQUEST__INIT;

        m.include_hlo_info = true;
        return libtpu__get_tpu_runtime_status_request__pack(&m, buf);
}

int libtpu_list_read(struct libtpu_reader *r, const void *data, size_t len,
                     bool ret[static _LIBTPU_METRIC_MAX]) {
        const Libtpu__ListSupportedMetricsResponse *m;
        int error = 0;

        m = libtpu_unpack(r, &libtpu__list_supported_metrics_response__descriptor, data, len, &error);
        if (!m)
                return error;
        memset(ret, 0, _LIBTPU_METRIC_MAX * sizeof(*ret));
        for (size_t i = 0; i < m->n_supported_metric; i++) {
                enum libtpu_metric id = libtpu_find(m->supported_metric[i]->metric_name);

                if (id < _LIBTPU_METRIC_MAX)
                        ret[id] = true;
        }
        return 0;
}

/* --- Points -------------------------------------------------------------------------------------------- */

/* Where ours is a plain number in the same unit it stays whole. */
static bool take_whole(struct sample *s, int64_t i, double factor) {
        s->is_int = factor == 1;
        if (s->is_int)
                s->i = i;
        else
                s->d = (double) i * factor;
        return true;
}

static bool take_real(struct sample *s, double d, double factor) {
        s->is_int = false;
        s->d = d * factor;
        return isfinite(s->d);
}

static bool read_gauge(const Libtpu__Gauge *g, double factor, struct sample *s) {
        switch ((int) g->value_case) { /* protobuf-c's padding member has another name before 1.4 */
        case LIBTPU__GAUGE__VALUE_AS_DOUBLE:
                return take_real(s, g->as_double, factor);
        case LIBTPU__GAUGE__VALUE_AS_INT:
                return take_whole(s, g->as_int, factor);
        case LIBTPU__GAUGE__VALUE_AS_BOOL:
                return take_whole(s, g->as_bool, 1);
        default:
                break;
        }
        return false;
}

static bool read_counter(const Libtpu__Counter *c, double factor, struct sample *s) {
        switch ((int) c->value_case) { /* protobuf-c's padding member has another name before 1.4 */
        case LIBTPU__COUNTER__VALUE_AS_DOUBLE:
                return c->as_double >= 0 && take_real(s, c->as_double, factor);
        case LIBTPU__COUNTER__VALUE_AS_INT:
                return c->as_int <= INT64_MAX && take_whole(s, (int64_t) c->as_int, factor);
        default:
                break;
        }
        return false;
}

/* False: it has no value, one that makes no sense, or one of another kind than its metric's. */
static bool read_measure(struct libtpu_reader *r, const Libtpu__Metric *m, const struct libtpu_def *d,
                         struct sample *s) {
        switch ((int) m->measure_case) { /* protobuf-c's padding member has another name before 1.4 */
        case LIBTPU__METRIC__MEASURE_GAUGE:
                return d->kind == SAMPLE_GAUGE && read_gauge(m->gauge, d->factor, s);
        case LIBTPU__METRIC__MEASURE_COUNTER:
                return d->kind == SAMPLE_COUNTER && read_counter(m->counter, d->factor, s);
        case LIBTPU__METRIC__MEASURE_DISTRIBUTION:
                s->h = &r->histogram;
                return d->kind == SAMPLE_HISTOGRAM &&
                       libtpu_distribution_read(r, m->distribution, d->factor);
        case LIBTPU__METRIC__MEASURE_SUMMARY:
                s->h = &r->histogram;
                return d->kind == SAMPLE_HISTOGRAM && libtpu_summary_read(r, m->summary, d->factor);
        default:
                break;
        }
        return false;
}

static usec_t read_time(const Libtpu__Timestamp *t, usec_t now_real) {
        usec_t at;

        if (!t || t->seconds <= 0 || t->nanos < 0 || t->nanos > 999999999 ||
            (uint64_t) t->seconds > now_real / USEC_PER_SEC)
                return 0;
        at = (usec_t) t->seconds * USEC_PER_SEC + (usec_t) t->nanos / NSEC_PER_USEC;
        return at <= now_real ? at : 0;
}

static bool read_point(struct libtpu_reader *r, const Libtpu__Metric *m, const struct libtpu_def *d,
                       usec_t now_real, struct libtpu_point *ret) {
        *ret = (struct libtpu_point){ .sample = { .name = d->ours,
                                                  .unit = d->unit,
                                                  .description = d->description,
                                                  .kind = d->kind },
                                      .start_real = read_time(m->start_timestamp, now_real),
                                      .attributes = r->attributes };
        if (!read_measure(r, m, d, &ret->sample))
                return false;
        libtpu_attributes_read(r, m->attribute);
        ret->n_attributes = r->n_attributes;
        for (size_t k = 0; k < LIBTPU_KEYS && d->keys[k]; k++)
                ret->values[k] = libtpu_attribute_value(r, d->keys[k]);
        return true;
}

int libtpu_metric_read(struct libtpu_reader *r, enum libtpu_metric id, const void *data, size_t len,
                       usec_t now_real, void (*take)(const struct libtpu_point *p, void *userdata),
                       void *userdata) {
        const struct libtpu_def *d = libtpu_def(id);
        const Libtpu__MetricResponse *m;
        int n = 0, error = 0;

        m = libtpu_unpack(r, &libtpu__metric_response__descriptor, data, len, &error);
        if (!m)
                return error;
        if (m->metric && m->metric->name[0] && !streq(m->metric->name, d->name))
                return -EBADMSG; /* another question's answer */
        for (size_t i = 0; m->metric && i < m->metric->n_metrics; i++) {
                struct libtpu_point p;

                if (n < LIBTPU_POINTS_MAX && read_point(r, m->metric->metrics[i], d, now_real, &p)) {
                        take(&p, userdata);
                        n++;
                } else
                        r->left_out++;
        }
        return n;
}
