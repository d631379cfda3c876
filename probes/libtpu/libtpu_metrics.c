/* SPDX-License-Identifier: Apache-2.0 */
#include "libtpu_metrics.h"

#include <assert.h>
#include <math.h>

#include "libtpu.pb-c.h"
#include "unpack.h"
#include "utf8.h"

#define DEPTH_MAX 16 /* messages in one another: the deepest that we know has eight */

static const struct libtpu_def defs[] = {
#define LIBTPU(...) LIBTPU_ROW(__VA_ARGS__)
#define LIBTPU_ROW(id, kind, name, factor, ours, unit, key0, our0, key1, our1, description)                 \
        [LIBTPU_##id] = { name,          ours,   unit,           description,                               \
                          SAMPLE_##kind, factor, { key0, key1 }, { our0, our1 } },
#include "libtpu_names.def"
#undef LIBTPU
#undef LIBTPU_ROW
};

const struct libtpu_def *libtpu_def(enum libtpu_metric id) {
        return &defs[id];
}

enum libtpu_metric libtpu_find(const char *name) {
        for (enum libtpu_metric id = 0; id < _LIBTPU_METRIC_MAX; id++)
                if (streq(defs[id].name, name))
                        return id;
        return _LIBTPU_METRIC_MAX;
}

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

/* --- Attributes ------------------------------------------------------------------------------------- */

/* False: it has no value that a label can have. */
static bool print_value(const Libtpu__AttrValue *v, char text[static LIBTPU_TEXT_MAX]) {
        switch (v ? (int) v->attr_case : 0) { /* protobuf-c's padding member has another name before 1.4 */
        case LIBTPU__ATTR_VALUE__ATTR_STRING_ATTR:
                utf8_copy_line(text, LIBTPU_TEXT_MAX, v->string_attr);
                return true;
        case LIBTPU__ATTR_VALUE__ATTR_BOOL_ATTR:
                (void) snprintf(text, LIBTPU_TEXT_MAX, "%s", v->bool_attr ? "true" : "false");
                return true;
        case LIBTPU__ATTR_VALUE__ATTR_INT_ATTR:
                (void) snprintf(text, LIBTPU_TEXT_MAX, "%" PRIi64, v->int_attr);
                return true;
        case LIBTPU__ATTR_VALUE__ATTR_DOUBLE_ATTR:
                (void) snprintf(text, LIBTPU_TEXT_MAX, "%.17g", v->double_attr);
                return true;
        default: /* nothing, or a list in a list: it names nothing that we know */
                break;
        }
        return false;
}

static void add_attribute(struct libtpu_reader *r, const Libtpu__Attribute *a) {
        struct libtpu_attribute *to;

        if (r->n_attributes >= LIBTPU_ATTRIBUTES_MAX)
                return;
        to = &r->attributes[r->n_attributes];
        if (!print_value(a->value, to->value))
                return;
        utf8_copy_line(to->key, sizeof(to->key), a->key);
        r->n_attributes++;
}

/* The attributes of a point, in either encoding, into r. */
static void read_attributes(struct libtpu_reader *r, const Libtpu__Attribute *a) {
        const Libtpu__KeyValueList *list;

        r->n_attributes = 0;
        if (!a || !a->value)
                return;
        if (a->value->attr_case != LIBTPU__ATTR_VALUE__ATTR_KVLIST_ATTR)
                return add_attribute(r, a);
        list = a->value->kvlist_attr;
        for (size_t i = 0; i < list->n_attributes; i++)
                add_attribute(r, list->attributes[i]);
}

/* tpu-info looks for "buffer-size", GKE's device plugin for "buffer_size". */
static bool same_key(const char *a, const char *b) {
        for (; *a && *b; a++, b++)
                if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_')))
                        return false;
        return *a == *b;
}

static bool is_digits(const char *s) {
        size_t n = strspn(s, "0123456789");

        return n > 0 && !s[n];
}

/* The device: "device_ordinal" of a list, else the only attribute, whatever it is called, if it is a
 * number. */
static const char *device_of(const struct libtpu_reader *r) {
        for (size_t i = 0; i < r->n_attributes; i++)
                if (same_key(r->attributes[i].key, "device_ordinal"))
                        return is_digits(r->attributes[i].value) ? r->attributes[i].value : "";
        if (r->n_attributes == 1 && is_digits(r->attributes[0].value))
                return r->attributes[0].value;
        return "";
}

/* The value of one of the metric's own keys; "": libtpu does not say. */
static const char *attribute_value(const struct libtpu_reader *r, const char *key) {
        if (!key[0])
                return device_of(r);
        for (size_t i = 0; i < r->n_attributes; i++)
                if (same_key(r->attributes[i].key, key))
                        return r->attributes[i].value;
        return "";
}

/* --- Histograms: bounds ------------------------------------------------------------------------------ */

/* Adds one; false: it does not rise, is no number, or there are too many. */
static bool add_bound(struct libtpu_reader *r, double bound, double factor) {
        size_t *n = &r->histogram.n_bounds;

        bound *= factor;
        if (!isfinite(bound) || *n >= LIBTPU_BOUNDS_MAX || (*n > 0 && bound <= r->bounds[*n - 1]))
                return false;
        r->bounds[(*n)++] = bound;
        return true;
}

static bool linear(struct libtpu_reader *r, int32_t finite, double width, double offset, double factor) {
        if (finite < 0 || finite >= LIBTPU_BOUNDS_MAX)
                return false;
        for (int32_t i = 0; i <= finite; i++)
                if (!add_bound(r, offset + width * i, factor))
                        return false;
        return true;
}

static bool exponential(struct libtpu_reader *r, const Libtpu__Exponential *e, double factor) {
        double bound = e->scale;

        if (e->num_finite_buckets < 0 || e->num_finite_buckets >= LIBTPU_BOUNDS_MAX)
                return false;
        for (int32_t i = 0; i <= e->num_finite_buckets; i++, bound *= e->growth_factor)
                if (!add_bound(r, bound, factor))
                        return false;
        return true;
}

static bool read_bounds(struct libtpu_reader *r, const Libtpu__BucketOptions *o, double factor) {
        r->histogram.n_bounds = 0;
        if (!o)
                return true;             /* one bucket that takes all */
        switch ((int) o->options_case) { /* protobuf-c's padding member has another name before 1.4 */
        case LIBTPU__BUCKET_OPTIONS__OPTIONS_EXPONENTIAL_BUCKETS:
                return exponential(r, o->exponential_buckets, factor);
        case LIBTPU__BUCKET_OPTIONS__OPTIONS_LINEAR_BUCKETS:
                return linear(r, o->linear_buckets->num_finite_buckets, o->linear_buckets->width,
                              o->linear_buckets->offset, factor);
        case LIBTPU__BUCKET_OPTIONS__OPTIONS_EXPLICIT_BUCKETS:
                for (size_t i = 0; i < o->explicit_buckets->n_bounds; i++)
                        if (!add_bound(r, o->explicit_buckets->bounds[i], factor))
                                return false;
                return true;
        default:
                break;
        }
        return true;
}

/* --- Distributions ------------------------------------------------------------------------------------- */

/* Counts behind the last one that is not zero may be left out. Their sum has to be the count. */
static bool read_counts(struct libtpu_reader *r, const Libtpu__Distribution *d) {
        size_t n = r->histogram.n_bounds + 1;
        uint64_t sum = 0;

        memset(r->counts, 0, n * sizeof(*r->counts));
        if (d->n_bucket_counts == 0) {
                if (r->histogram.n_bounds > 0)
                        return d->count == 0;
                r->counts[0] = (uint64_t) d->count;
                return true;
        }
        if (d->n_bucket_counts > n)
                return false;
        for (size_t i = 0; i < d->n_bucket_counts; i++) {
                if (d->bucket_counts[i] < 0 || d->bucket_counts[i] > d->count - (int64_t) sum)
                        return false;
                r->counts[i] = (uint64_t) d->bucket_counts[i];
                sum += r->counts[i];
        }
        return sum == (uint64_t) d->count;
}

/* Into r->histogram, its values times factor. False: it makes no sense. */
static bool read_distribution(struct libtpu_reader *r, const Libtpu__Distribution *d, double factor) {
        struct sample_histogram *h = &r->histogram;
        double sum = d->mean * (double) d->count * factor;

        if (d->count < 0 || !isfinite(sum) || !read_bounds(r, d->bucket_options, factor) ||
            !read_counts(r, d))
                return false;
        h->count = (uint64_t) d->count;
        h->sum = sum;
        h->min = h->max = NAN;
        if (d->count > 0 && isfinite(d->min) && isfinite(d->max) && d->min <= d->max &&
            (d->min != 0 || d->max != 0)) {
                h->min = d->min * factor;
                h->max = d->max * factor;
        }
        h->bounds = r->bounds;
        h->counts = r->counts;
        return true;
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
                return d->kind == SAMPLE_HISTOGRAM && read_distribution(r, m->distribution, d->factor);
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
        read_attributes(r, m->attribute);
        ret->n_attributes = r->n_attributes;
        for (size_t k = 0; k < LIBTPU_KEYS && d->keys[k]; k++)
                ret->values[k] = attribute_value(r, d->keys[k]);
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
