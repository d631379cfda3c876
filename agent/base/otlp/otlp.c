/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "otlp.h"
#include "otlp_attributes.h"

#define SCOPE_NAME "tpu-hostd"
/* Upper bounds of what tags, lengths and fixed fields take, so that the size is known before encoding. */
#define POINT_BYTES 64
#define HISTOGRAM_BYTES 64 /* what a histogram has beside its buckets */
#define METRIC_BYTES 48

struct point {
        struct point *next;
        union {
                Otlp__NumberDataPoint m;
                Otlp__HistogramDataPoint h; /* of a metric that is one */
        };
};

struct record {
        struct record *next;
        Otlp__LogRecord m;
        Otlp__AnyValue body;
        Otlp__KeyValueList list;
};

struct metric {
        Otlp__Metric m;
        Otlp__Gauge gauge;
        Otlp__Sum sum;
        Otlp__Histogram histogram;
        struct point *first, *last;
        size_t n;
};

struct otlp {
        struct arena resource_arena, points_arena, scratch_arena;
        Otlp__Resource resource;
        Otlp__InstrumentationScope scope;
        bool scoped; /* it is ours: it is said */
        size_t resource_bytes;

        struct metric *metrics[OTLP_METRICS_MAX];
        size_t n_metrics, bytes;

        struct arena lines_arena;
        struct record *first_line, *last_line;
        size_t n_lines, line_bytes;

        uint8_t *out;
};

int otlp_new(const struct otlp_attribute *resource, size_t n, const char *scope_version, struct otlp **ret) {
        _cleanup_(otlp_freep) struct otlp *o = calloc(1, sizeof(*o));
        int r;

        if (!o)
                return -ENOMEM;
        otlp__resource__init(&o->resource);
        o->resource.n_attributes = n;
        r = otlp_attributes_make(&o->resource_arena, resource, n, &o->resource.attributes);
        if (r < 0)
                return r;
        otlp__instrumentation_scope__init(&o->scope);
        o->scoped = scope_version;
        o->scope.name = arena_text(&o->resource_arena, SCOPE_NAME);
        o->scope.version = arena_text(&o->resource_arena, scope_version ?: "");
        if (!o->scope.name || !o->scope.version)
                return -ENOMEM;
        o->resource_bytes = METRIC_BYTES + otlp_attributes_bytes(resource, n) + strlen(SCOPE_NAME) +
                            strlen(o->scope.version);
        o->bytes = o->resource_bytes;
        *ret = TAKE_PTR(o);
        return 0;
}

struct otlp *otlp_free(struct otlp *o) {
        if (!o)
                return NULL;
        arena_clear(&o->resource_arena);
        arena_clear(&o->points_arena);
        arena_clear(&o->scratch_arena);
        arena_clear(&o->lines_arena);
        free(o->out);
        free(o);
        return NULL;
}

/* The latest first: points of one metric mostly come one behind the other. */
static struct metric *find_metric(struct otlp *o, const char *name) {
        for (size_t i = o->n_metrics; i > 0; i--)
                if (streq(o->metrics[i - 1]->m.name, name))
                        return o->metrics[i - 1];
        return NULL;
}

static Otlp__Metric__DataCase data_case(const struct otlp_point *p) {
        if (p->histogram)
                return OTLP__METRIC__DATA_HISTOGRAM;
        return p->counter ? OTLP__METRIC__DATA_SUM : OTLP__METRIC__DATA_GAUGE;
}

static struct metric *new_metric(struct otlp *o, const struct otlp_point *p) {
        struct metric *t = arena_alloc(&o->points_arena, sizeof(*t));

        if (!t)
                return NULL;
        otlp__metric__init(&t->m);
        otlp__gauge__init(&t->gauge);
        otlp__sum__init(&t->sum);
        otlp__histogram__init(&t->histogram);
        t->m.name = arena_text(&o->points_arena, p->name);
        t->m.unit = arena_text(&o->points_arena, p->unit ? p->unit : "");
        t->m.description = arena_text(&o->points_arena, p->description ? p->description : "");
        if (!t->m.name || !t->m.unit || !t->m.description)
                return NULL;
        t->m.data_case = data_case(p);
        if (p->histogram) {
                t->histogram.aggregation_temporality =
                        OTLP__AGGREGATION_TEMPORALITY__AGGREGATION_TEMPORALITY_CUMULATIVE;
                t->m.histogram = &t->histogram;
        } else if (p->counter) {
                t->sum.aggregation_temporality =
                        OTLP__AGGREGATION_TEMPORALITY__AGGREGATION_TEMPORALITY_CUMULATIVE;
                t->sum.is_monotonic = true;
                t->m.sum = &t->sum;
        } else
                t->m.gauge = &t->gauge;
        return t;
}

/* Those of a point, or of a record: as JSON, where there is some. */
static int make_attributes(struct arena *arena, json_t *json, const struct otlp_attribute *a, size_t n,
                           Otlp__KeyValue ***ret, size_t *ret_n) {
        if (json)
                return otlp_json_attributes(arena, json, ret, ret_n);
        *ret_n = n;
        return otlp_attributes_make(arena, a, n, ret);
}

static struct point *new_histogram(struct otlp *o, const struct otlp_point *p) {
        const struct otlp_histogram *h = p->histogram;
        struct point *t = arena_alloc(&o->points_arena, sizeof(*t));

        if (!t)
                return NULL;
        otlp__histogram_data_point__init(&t->h);
        if (make_attributes(&o->points_arena, p->labels, p->attributes, p->n_attributes, &t->h.attributes,
                            &t->h.n_attributes) < 0)
                return NULL;
        t->h.time_unix_nano = p->time_real * NSEC_PER_USEC;
        t->h.start_time_unix_nano = p->start_real * NSEC_PER_USEC;
        t->h.count = h->count;
        if (!isnan(h->sum)) {
                t->h.sum__case = OTLP__HISTOGRAM_DATA_POINT__SUM__SUM;
                t->h.sum = h->sum;
        }
        if (isfinite(h->min) && isfinite(h->max)) {
                t->h.min__case = OTLP__HISTOGRAM_DATA_POINT__MIN__MIN;
                t->h.min = h->min;
                t->h.max__case = OTLP__HISTOGRAM_DATA_POINT__MAX__MAX;
                t->h.max = h->max;
        }
        t->h.n_explicit_bounds = h->n_bounds;
        t->h.n_bucket_counts = h->n_bounds + 1;
        t->h.explicit_bounds =
                arena_alloc(&o->points_arena, MAX(h->n_bounds, (size_t) 1) * sizeof(*h->bounds));
        t->h.bucket_counts = arena_alloc(&o->points_arena, t->h.n_bucket_counts * sizeof(*h->counts));
        if (!t->h.explicit_bounds || !t->h.bucket_counts)
                return NULL;
        if (h->n_bounds > 0)
                memcpy(t->h.explicit_bounds, h->bounds, h->n_bounds * sizeof(*h->bounds));
        memcpy(t->h.bucket_counts, h->counts, t->h.n_bucket_counts * sizeof(*h->counts));
        return t;
}

static struct point *new_point(struct otlp *o, const struct otlp_point *p) {
        struct point *t = arena_alloc(&o->points_arena, sizeof(*t));

        if (!t)
                return NULL;
        otlp__number_data_point__init(&t->m);
        if (make_attributes(&o->points_arena, p->labels, p->attributes, p->n_attributes, &t->m.attributes,
                            &t->m.n_attributes) < 0)
                return NULL;
        t->m.time_unix_nano = p->time_real * NSEC_PER_USEC;
        t->m.start_time_unix_nano = p->counter ? p->start_real * NSEC_PER_USEC : 0;
        if (p->is_int) {
                t->m.value_case = OTLP__NUMBER_DATA_POINT__VALUE_AS_INT;
                t->m.as_int = p->i;
        } else {
                t->m.value_case = OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE;
                t->m.as_double = p->d;
        }
        return t;
}

int otlp_add_point(struct otlp *o, const struct otlp_point *p) {
        size_t bytes = POINT_BYTES + otlp_attributes_bytes(p->attributes, p->n_attributes) +
                       otlp_json_bytes(p->labels);
        struct metric *t = find_metric(o, p->name);
        bool known = t;
        struct point *point;

        if (p->n_attributes > OTLP_ATTRIBUTES_MAX)
                return -EINVAL;
        if (known && t->m.data_case != data_case(p))
                return -EINVAL;
        if (p->histogram)
                bytes += HISTOGRAM_BYTES + (2 * p->histogram->n_bounds + 1) * sizeof(double);
        if (!known)
                bytes += METRIC_BYTES + strlen(p->name) + (p->unit ? strlen(p->unit) : 0) +
                         (p->description ? strlen(p->description) : 0);
        if (o->bytes + bytes > OTLP_REQUEST_MAX || (!known && o->n_metrics >= OTLP_METRICS_MAX))
                return -E2BIG;
        if (!known)
                t = new_metric(o, p);
        point = !t ? NULL : p->histogram ? new_histogram(o, p) : new_point(o, p);
        if (!point)
                return -ENOMEM; /* the arena gets back what was taken at the next encode */
        if (!known)
                o->metrics[o->n_metrics++] = t;
        if (t->last)
                t->last->next = point;
        else
                t->first = point;
        t->last = point;
        t->n++;
        o->bytes += bytes;
        return 0;
}

/* Fills the list of a metric's points. */
static int link_points(struct otlp *o, struct metric *t) {
        bool is_histogram = t->m.data_case == OTLP__METRIC__DATA_HISTOGRAM;
        void **list = arena_alloc(&o->points_arena, t->n * sizeof(*list));
        size_t n = 0;

        if (!list)
                return -ENOMEM;
        for (struct point *p = t->first; p; p = p->next)
                list[n++] = is_histogram ? (void *) &p->h : &p->m;
        t->gauge.n_data_points = t->sum.n_data_points = t->histogram.n_data_points = n;
        if (is_histogram)
                t->histogram.data_points = (Otlp__HistogramDataPoint **) list;
        else
                t->gauge.data_points = t->sum.data_points = (Otlp__NumberDataPoint **) list;
        return 0;
}

static int reserve_output(struct otlp *o, size_t size) {
        uint8_t *p;

        if (size > OTLP_REQUEST_MAX)
                return -E2BIG;
        p = realloc(o->out, MAX(size, (size_t) 1));
        if (!p)
                return -ENOMEM;
        o->out = p;
        return 0;
}

static int encode_points(struct otlp *o, size_t *ret_len) {
        Otlp__ExportMetricsServiceRequest request = OTLP__EXPORT_METRICS_SERVICE_REQUEST__INIT;
        Otlp__ResourceMetrics of_resource = OTLP__RESOURCE_METRICS__INIT, *resources = &of_resource;
        Otlp__ScopeMetrics of_scope = OTLP__SCOPE_METRICS__INIT, *scopes = &of_scope;
        Otlp__Metric **list = arena_alloc(&o->points_arena, o->n_metrics * sizeof(*list));
        int r;

        if (!list)
                return -ENOMEM;
        for (size_t i = 0; i < o->n_metrics; i++) {
                r = link_points(o, o->metrics[i]);
                if (r < 0)
                        return r;
                list[i] = &o->metrics[i]->m;
        }
        of_scope.scope = o->scoped ? &o->scope : NULL;
        of_scope.n_metrics = o->n_metrics;
        of_scope.metrics = list;
        of_resource.resource = &o->resource;
        of_resource.n_scope_metrics = 1;
        of_resource.scope_metrics = &scopes;
        request.n_resource_metrics = 1;
        request.resource_metrics = &resources;
        r = reserve_output(o, otlp__export_metrics_service_request__get_packed_size(&request));
        if (r < 0)
                return r;
        *ret_len = otlp__export_metrics_service_request__pack(&request, o->out);
        return 0;
}

void otlp_drop_output(struct otlp *o) {
        free(TAKE_PTR(o->out));
}

int otlp_encode_metrics(struct otlp *o, const void **ret, size_t *ret_len) {
        size_t len;
        int r;

        if (o->n_metrics == 0)
                return -ENODATA;
        r = encode_points(o, &len);
        o->n_metrics = 0;
        o->bytes = o->resource_bytes;
        arena_clear(&o->points_arena);
        if (r < 0)
                return r;
        *ret = o->out;
        *ret_len = len;
        return 0;
}

/* Upper bound of what an encoded one takes. */
static size_t record_bytes(const struct otlp_event *e) {
        return POINT_BYTES + strlen(e->name) + (e->text ? strlen(e->text) : 0) +
               otlp_attributes_bytes(e->attributes, e->n_attributes) +
               otlp_attributes_bytes(e->body, e->n_body) + otlp_json_bytes(e->json_attributes) +
               otlp_json_bytes(e->json_body);
}

/* A text, a value of JSON, or a key-value list; where it is none of them, or empty, there is no body. */
static int make_body(struct arena *a, const struct otlp_event *e, struct record *t) {
        otlp__any_value__init(&t->body);
        otlp__key_value_list__init(&t->list);
        if (e->json_body) {
                t->m.body = json_is_null(e->json_body) ? NULL : &t->body;
                return otlp_json_value(a, e->json_body, &t->body);
        }
        t->m.body = e->text || e->n_body > 0 ? &t->body : NULL;
        if (e->text) {
                t->body.value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
                t->body.string_value = arena_text(a, e->text);
                return t->body.string_value ? 0 : -ENOMEM;
        }
        t->list.n_values = e->n_body;
        t->body.value_case = OTLP__ANY_VALUE__VALUE_KVLIST_VALUE;
        t->body.kvlist_value = &t->list;
        return otlp_attributes_make(a, e->body, e->n_body, &t->list.values);
}

/* NULL: out of memory. */
static struct record *new_record(struct arena *a, const struct otlp_event *e) {
        struct record *t = arena_alloc(a, sizeof(*t));

        assert((e->text != NULL) + (e->n_body > 0) + (e->json_body != NULL) <= 1);
        if (!t)
                return NULL;
        otlp__log_record__init(&t->m);
        t->m.time_unix_nano = t->m.observed_time_unix_nano = e->time_real * NSEC_PER_USEC;
        t->m.severity_number = (uint32_t) e->severity;
        t->m.severity_text = arena_text(a, severity_name(e->severity));
        t->m.event_name = arena_text(a, e->name);
        if (!t->m.severity_text || !t->m.event_name || make_body(a, e, t) < 0 ||
            make_attributes(a, e->json_attributes, e->attributes, e->n_attributes, &t->m.attributes,
                            &t->m.n_attributes) < 0)
                return NULL;
        return t;
}

/* Records that are linked already, all of this resource. */
static int encode_records(struct otlp *o, Otlp__LogRecord **records, size_t n, size_t *ret_len) {
        Otlp__ExportLogsServiceRequest request = OTLP__EXPORT_LOGS_SERVICE_REQUEST__INIT;
        Otlp__ResourceLogs of_resource = OTLP__RESOURCE_LOGS__INIT, *resources = &of_resource;
        Otlp__ScopeLogs of_scope = OTLP__SCOPE_LOGS__INIT, *scopes = &of_scope;
        int r;

        of_scope.scope = o->scoped ? &o->scope : NULL;
        of_scope.n_log_records = n;
        of_scope.log_records = records;
        of_resource.resource = &o->resource;
        of_resource.n_scope_logs = 1;
        of_resource.scope_logs = &scopes;
        request.n_resource_logs = 1;
        request.resource_logs = &resources;
        r = reserve_output(o, otlp__export_logs_service_request__get_packed_size(&request));
        if (r < 0)
                return r;
        *ret_len = otlp__export_logs_service_request__pack(&request, o->out);
        return 0;
}

int otlp_encode_event(struct otlp *o, const struct otlp_event *e, const void **ret, size_t *ret_len) {
        struct record *t;
        size_t len;
        int r;

        if (e->n_attributes > OTLP_ATTRIBUTES_MAX)
                return -EINVAL;
        if (o->resource_bytes + record_bytes(e) > OTLP_REQUEST_MAX)
                return -E2BIG; /* before anything of that size is copied */
        t = new_record(&o->scratch_arena, e);
        r = t ? encode_records(o, &(Otlp__LogRecord *){ &t->m }, 1, &len) : -ENOMEM;
        arena_clear(&o->scratch_arena);
        if (r < 0)
                return r;
        *ret = o->out;
        *ret_len = len;
        return 0;
}

/* --- Lines --------------------------------------------------------------------------------------------- */

int otlp_add_line(struct otlp *o, const struct otlp_event *l, size_t max) {
        size_t bytes = record_bytes(l);
        struct record *t;

        if (l->n_attributes > OTLP_ATTRIBUTES_MAX)
                return -EINVAL;
        if (o->resource_bytes + o->line_bytes + bytes > MIN(max, (size_t) OTLP_REQUEST_MAX))
                return -E2BIG;
        t = new_record(&o->lines_arena, l);
        if (!t)
                return -ENOMEM; /* the arena gets back what was taken at the next encode */
        if (o->last_line)
                o->last_line->next = t;
        else
                o->first_line = t;
        o->last_line = t;
        o->n_lines++;
        o->line_bytes += bytes;
        return 0;
}

void otlp_drop_lines(struct otlp *o) {
        o->first_line = o->last_line = NULL;
        o->n_lines = o->line_bytes = 0;
        arena_clear(&o->lines_arena);
}

int otlp_encode_lines(struct otlp *o, const void **ret, size_t *ret_len) {
        Otlp__LogRecord **list;
        size_t n = 0, len;
        int r = -ENOMEM;

        if (o->n_lines == 0)
                return -ENODATA;
        list = arena_alloc(&o->lines_arena, o->n_lines * sizeof(*list));
        for (struct record *l = o->first_line; list && l; l = l->next)
                list[n++] = &l->m;
        if (list)
                r = encode_records(o, list, n, &len);
        otlp_drop_lines(o);
        if (r < 0)
                return r;
        *ret = o->out;
        *ret_len = len;
        return 0;
}
