/* SPDX-License-Identifier: Apache-2.0 */
/* What libtpu answers, as points; and that what makes no sense does not count. */
#include "libtpu.pb-c.h"
#include "libtpu_status.h"
#include "test.h"

#define NOW (1795237200 * USEC_PER_SEC)

static size_t allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size) {
        allocations++;
        return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
        allocations++;
        return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size) {
        allocations++;
        return __real_realloc(p, size);
}

/* --- Answers ------------------------------------------------------------------------------------------- */

#define TEXT(t) ((char *) (uintptr_t) (t))

static Libtpu__AttrValue text_value(const char *t) {
        Libtpu__AttrValue v = LIBTPU__ATTR_VALUE__INIT;

        v.attr_case = LIBTPU__ATTR_VALUE__ATTR_STRING_ATTR;
        v.string_attr = TEXT(t);
        return v;
}

static Libtpu__AttrValue int_value(int64_t i) {
        Libtpu__AttrValue v = LIBTPU__ATTR_VALUE__INIT;

        v.attr_case = LIBTPU__ATTR_VALUE__ATTR_INT_ATTR;
        v.int_attr = i;
        return v;
}

struct seen {
        size_t n;
        char values[16][LIBTPU_KEYS][LIBTPU_TEXT_MAX];
        double numbers[16];
        struct libtpu_point last;
        struct sample_histogram histogram;
        double bounds[LIBTPU_BOUNDS_MAX];
        uint64_t counts[LIBTPU_BOUNDS_MAX + 1];
        enum libtpu_metric id;
        struct libtpu_reading reading;
};

static void see(const struct libtpu_point *p, void *userdata) {
        struct seen *s = userdata;
        size_t n = s->n++;

        for (size_t k = 0; k < LIBTPU_KEYS && n < 16; k++)
                (void) snprintf(s->values[n][k], LIBTPU_TEXT_MAX, "%s",
                                p->values[k] ? p->values[k] : "(none)");
        s->last = *p;
        libtpu_reading_take(&s->reading, s->id, p);
        if (p->sample.kind != SAMPLE_HISTOGRAM) {
                if (n < 16)
                        s->numbers[n] = p->sample.is_int ? (double) p->sample.i : p->sample.d;
                return;
        }
        s->histogram = *p->sample.h;
        memcpy(s->bounds, p->sample.h->bounds, p->sample.h->n_bounds * sizeof(double));
        memcpy(s->counts, p->sample.h->counts, (p->sample.h->n_bounds + 1) * sizeof(uint64_t));
}

/* Reads an answer of these points. */
static int read_points(struct libtpu_reader *r, enum libtpu_metric id, Libtpu__Metric **points, size_t n,
                       struct seen *ret) {
        static uint8_t buf[1 << 20];
        Libtpu__TpuMetric t = LIBTPU__TPU_METRIC__INIT;
        Libtpu__MetricResponse m = LIBTPU__METRIC_RESPONSE__INIT;

        t.name = TEXT(libtpu_def(id)->name);
        t.n_metrics = n;
        t.metrics = points;
        m.metric = &t;
        *ret = (struct seen){ .id = id, .reading = LIBTPU_READING_NULL };
        ASSERT_TRUE(libtpu__metric_response__get_packed_size(&m) <= sizeof(buf));
        return libtpu_metric_read(r, id, buf, libtpu__metric_response__pack(&m, buf), NOW, see, ret);
}

/* --- Attributes ---------------------------------------------------------------------------------------- */

static int read_gauge(struct libtpu_reader *r, enum libtpu_metric id, Libtpu__Attribute *a, double number,
                      struct seen *ret) {
        Libtpu__Gauge g = LIBTPU__GAUGE__INIT;
        Libtpu__Metric m = LIBTPU__METRIC__INIT, *list[] = { &m };

        g.value_case = LIBTPU__GAUGE__VALUE_AS_DOUBLE;
        g.as_double = number;
        m.measure_case = LIBTPU__METRIC__MEASURE_GAUGE;
        m.gauge = &g;
        m.attribute = a;
        return read_points(r, id, list, 1, ret);
}

static void test_device_in_each_encoding(void) {
        struct {
                Libtpu__AttrValue value;
                const char *device;
        } lists[] = { { text_value("3"), "3" }, { int_value(3), "3" }, { text_value("3x"), "" },
                      { text_value(""), "" },   { int_value(-1), "" } };
        _cleanup_libtpu_reader_ struct libtpu_reader r;
        Libtpu__Attribute outer = LIBTPU__ATTRIBUTE__INIT, ordinal = LIBTPU__ATTRIBUTE__INIT,
                          type = LIBTPU__ATTRIBUTE__INIT, *both[] = { &type, &ordinal };
        Libtpu__KeyValueList list = LIBTPU__KEY_VALUE_LIST__INIT;
        Libtpu__AttrValue value = LIBTPU__ATTR_VALUE__INIT, core = text_value("Tensor\nCore\xff");
        struct seen s;

        libtpu_reader_init(&r);
        outer.key = TEXT("device-id");
        outer.value = &value;
        value = int_value(7);
        ASSERT_EQ(read_gauge(&r, LIBTPU_DUTY_CYCLE, &outer, 97.5, &s), 1);
        ASSERT_STREQ(s.values[0][0], "7");
        ASSERT_STREQ(s.values[0][1], "(none)");
        ASSERT_TRUE(fabs(s.numbers[0] - 0.975) < 1e-12);
        ASSERT_STREQ(s.last.sample.name, "tpu.duty_cycle");
        value = (Libtpu__AttrValue) LIBTPU__ATTR_VALUE__INIT;
        value.attr_case = LIBTPU__ATTR_VALUE__ATTR_KVLIST_ATTR;
        value.kvlist_attr = &list;
        list.attributes = both;
        list.n_attributes = 2;
        ordinal.key = TEXT("device_ordinal");
        type.key = TEXT("core-type");
        type.value = &core;
        for (size_t i = 0; i < ELEMENTSOF(lists); i++) {
                ordinal.value = &lists[i].value;
                ASSERT_EQ(read_gauge(&r, LIBTPU_HLO_QUEUE, &outer, 2, &s), 1);
                ASSERT_STREQ(s.values[0][0], lists[i].device);
                ASSERT_STREQ(s.values[0][1], "Tensor Core?");
        }
        ASSERT_EQ(read_gauge(&r, LIBTPU_DUTY_CYCLE, NULL, 1, &s), 1); /* nothing said of a device */
        ASSERT_STREQ(s.values[0][0], "");
        ASSERT_EQ(r.left_out, 0);
}

/* --- Numbers ------------------------------------------------------------------------------------------- */

static void test_numbers_that_are_none(void) {
        _cleanup_libtpu_reader_ struct libtpu_reader r;
        Libtpu__Gauge text = LIBTPU__GAUGE__INIT;
        Libtpu__Counter counter = LIBTPU__COUNTER__INIT;
        Libtpu__Timestamp start = LIBTPU__TIMESTAMP__INIT;
        Libtpu__Metric m = LIBTPU__METRIC__INIT, *list[] = { &m };
        struct seen s;

        libtpu_reader_init(&r);
        ASSERT_EQ(read_gauge(&r, LIBTPU_IDLE, NULL, (double) NAN, &s), 0);
        ASSERT_EQ(read_gauge(&r, LIBTPU_IDLE, NULL, (double) INFINITY, &s), 0);
        ASSERT_EQ(read_gauge(&r, LIBTPU_TCP_SENT, NULL, 1, &s), 0); /* a counter that comes as a gauge */
        ASSERT_EQ(read_points(&r, LIBTPU_IDLE, list, 1, &s), 0);    /* no measure */
        text.value_case = LIBTPU__GAUGE__VALUE_AS_STRING;
        text.as_string = TEXT("12");
        m.measure_case = LIBTPU__METRIC__MEASURE_GAUGE;
        m.gauge = &text;
        ASSERT_EQ(read_points(&r, LIBTPU_IDLE, list, 1, &s), 0);
        m.measure_case = LIBTPU__METRIC__MEASURE_COUNTER;
        m.counter = &counter;
        counter.value_case = LIBTPU__COUNTER__VALUE_AS_INT;
        counter.as_int = UINT64_MAX;
        ASSERT_EQ(read_points(&r, LIBTPU_TCP_SENT, list, 1, &s), 0);
        ASSERT_EQ(r.left_out, 6);
        counter.as_int = 12345678901234;
        start.seconds = 1795237000;
        start.nanos = 500000000;
        m.start_timestamp = &start;
        ASSERT_EQ(read_points(&r, LIBTPU_TCP_SENT, list, 1, &s), 1);
        ASSERT_TRUE(s.last.sample.is_int && s.last.sample.i == 12345678901234);
        ASSERT_EQ(s.last.start_real, 1795237000 * USEC_PER_SEC + 500 * USEC_PER_MSEC);
        start.seconds = 1795237201; /* in the future: it says nothing */
        ASSERT_EQ(read_points(&r, LIBTPU_TCP_SENT, list, 1, &s), 1);
        ASSERT_EQ(s.last.start_real, 0);
        start.seconds = INT64_MAX;
        ASSERT_EQ(read_points(&r, LIBTPU_TCP_SENT, list, 1, &s), 1);
        ASSERT_EQ(s.last.start_real, 0);
}

/* --- Histograms ---------------------------------------------------------------------------------------- */

static int read_distribution(struct libtpu_reader *r, enum libtpu_metric id, Libtpu__Distribution *d,
                             struct seen *ret) {
        Libtpu__Metric m = LIBTPU__METRIC__INIT, *list[] = { &m };

        m.measure_case = LIBTPU__METRIC__MEASURE_DISTRIBUTION;
        m.distribution = d;
        return read_points(r, id, list, 1, ret);
}

static void expect_bounds(const struct seen *s, const double *bounds, size_t n) {
        ASSERT_EQ(s->histogram.n_bounds, n);
        for (size_t i = 0; i < n; i++)
                if (fabs(s->bounds[i] - bounds[i]) > 1e-12 * fabs(bounds[i]))
                        test_fail(__FILE__, __LINE__, "bound %zu is %g, not %g", i, s->bounds[i], bounds[i]);
}

static void test_bucket_options(void) {
        _cleanup_libtpu_reader_ struct libtpu_reader r;
        Libtpu__Distribution d = LIBTPU__DISTRIBUTION__INIT;
        Libtpu__BucketOptions o = LIBTPU__BUCKET_OPTIONS__INIT;
        Libtpu__Exponential exponential = LIBTPU__EXPONENTIAL__INIT;
        Libtpu__Linear linear = LIBTPU__LINEAR__INIT;
        Libtpu__Explicit explicit = LIBTPU__EXPLICIT__INIT;
        struct seen s;

        libtpu_reader_init(&r);
        d.count = 10;
        d.mean = 4;
        d.min = 1;
        d.max = 9;
        d.bucket_counts = (int64_t[]){ 1, 2, 3, 4 };
        d.n_bucket_counts = 4;
        d.bucket_options = &o;
        o.options_case = LIBTPU__BUCKET_OPTIONS__OPTIONS_EXPONENTIAL_BUCKETS;
        o.exponential_buckets = &exponential;
        exponential.num_finite_buckets = 3;
        exponential.growth_factor = 2;
        exponential.scale = 1;
        ASSERT_EQ(read_distribution(&r, LIBTPU_DCN_DURATION, &d, &s), 1);
        expect_bounds(&s, (const double[]){ 1e-6, 2e-6, 4e-6, 8e-6 }, 4); /* seconds of microseconds */
        ASSERT_TRUE(s.counts[3] == 4 && s.counts[4] == 0 && s.histogram.count == 10);
        ASSERT_TRUE(fabs(s.histogram.sum - 40e-6) < 1e-15 && fabs(s.histogram.max - 9e-6) < 1e-15);
        o.options_case = LIBTPU__BUCKET_OPTIONS__OPTIONS_LINEAR_BUCKETS;
        o.linear_buckets = &linear;
        linear.num_finite_buckets = 2;
        linear.width = 5;
        linear.offset = -5;
        ASSERT_EQ(read_distribution(&r, LIBTPU_DCN_SIZE, &d, &s), 1);
        expect_bounds(&s, (const double[]){ -5, 0, 5 }, 3);
        o.options_case = LIBTPU__BUCKET_OPTIONS__OPTIONS_EXPLICIT_BUCKETS;
        o.explicit_buckets = &explicit;
        explicit.bounds = (double[]){ 1, 10, 100 };
        explicit.n_bounds = 3;
        ASSERT_EQ(read_distribution(&r, LIBTPU_DCN_SIZE, &d, &s), 1);
        expect_bounds(&s, (const double[]){ 1, 10, 100 }, 3);
        d.bucket_options = NULL;
        d.n_bucket_counts = 0;
        ASSERT_EQ(read_distribution(&r, LIBTPU_DCN_SIZE, &d, &s), 1);
        ASSERT_TRUE(s.histogram.n_bounds == 0 && s.counts[0] == 10);
        ASSERT_EQ(r.left_out, 0);
}

static void test_distributions_that_make_no_sense(void) {
        static const int64_t good[] = { 1, 2, 3, 4 }, negative[] = { 11, -1 }, more[] = { 1, 2, 3, 5 },
                             long_ones[] = { 1, 1, 1, 1, 1, 5 }, wraps[] = { 5, INT64_MAX, 5 };
        struct {
                int64_t count;
                double mean, scale, growth;
                int32_t finite;
                const int64_t *counts;
                size_t n_counts;
        } cases[] = {
                { 10, 4, 1, 2, 3, negative, 2 },
                { 10, 4, 1, 2, 3, more, 4 },
                { 10, 4, 1, 2, 3, long_ones, 6 },
                { 10, 4, 1, 2, 3, wraps, 3 },
                { 10, 4, 1, 2, 3, good, 3 },
                { 10, 4, 1, 2, 3, NULL, 0 }, /* a count without buckets */
                { -1, 4, 1, 2, 3, good, 0 },
                { 10, (double) NAN, 1, 2, 3, good, 4 },
                { 10, 1e308, 1, 2, 3, good, 4 },
                { 10, 4, (double) NAN, 2, 3, good, 4 },
                { 10, 4, 0, 2, 3, good, 4 },
                { 10, 4, 1, 1, 3, good, 4 },
                { 10, 4, 1, 0.5, 3, good, 4 },
                { 10, 4, 1, 1e200, 3, good, 4 },
                { 10, 4, 1, 1.01, LIBTPU_BOUNDS_MAX, good, 4 },
                { 10, 4, 1, 2, INT32_MAX, good, 4 },
                { 10, 4, 1, 2, -1, good, 4 },
        };
        _cleanup_libtpu_reader_ struct libtpu_reader r;
        Libtpu__Distribution d = LIBTPU__DISTRIBUTION__INIT;
        Libtpu__BucketOptions o = LIBTPU__BUCKET_OPTIONS__INIT;
        Libtpu__Exponential e = LIBTPU__EXPONENTIAL__INIT;
        struct seen s;

        libtpu_reader_init(&r);
        o.options_case = LIBTPU__BUCKET_OPTIONS__OPTIONS_EXPONENTIAL_BUCKETS;
        o.exponential_buckets = &e;
        d.bucket_options = &o;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                d.count = cases[i].count;
                d.mean = cases[i].mean;
                d.bucket_counts = (int64_t *) (uintptr_t) cases[i].counts;
                d.n_bucket_counts = cases[i].n_counts;
                e.num_finite_buckets = cases[i].finite;
                e.growth_factor = cases[i].growth;
                e.scale = cases[i].scale;
                if (read_distribution(&r, LIBTPU_DCN_DURATION, &d, &s) != 0)
                        test_fail(__FILE__, __LINE__, "case %zu was taken", i);
                ASSERT_EQ(r.left_out, i + 1);
        }
}

/* --- What comes as a whole ----------------------------------------------------------------------------- */

static void test_answers_of_others(void) {
        _cleanup_libtpu_reader_ struct libtpu_reader r;
        Libtpu__TpuMetric t = LIBTPU__TPU_METRIC__INIT;
        Libtpu__MetricResponse m = LIBTPU__METRIC_RESPONSE__INIT;
        bool offered[_LIBTPU_METRIC_MAX] = { true };
        static uint8_t deep[4096];
        struct seen s = { 0 };
        uint8_t buf[256];
        size_t len = 0;

        libtpu_reader_init(&r);
        ASSERT_EQ(libtpu_metric_read(&r, LIBTPU_IDLE, "", 0, NOW, see, &s), 0); /* no metric: no points */
        t.name = TEXT("tpu.runtime.uptime.seconds.gauge");
        m.metric = &t;
        len = libtpu__metric_response__pack(&m, buf);
        ASSERT_EQ(libtpu_metric_read(&r, LIBTPU_IDLE, buf, len, NOW, see, &s), -EBADMSG);
        ASSERT_EQ(libtpu_metric_read(&r, LIBTPU_IDLE, "\xff\xff", 2, NOW, see, &s), -EBADMSG);
        ASSERT_EQ(libtpu_list_read(&r, "\xff\xff", 2, offered), -EBADMSG);
        ASSERT_TRUE(offered[0]); /* untouched */
        /* metric → attribute → value → list → attribute → …: deeper than anybody needs */
        len = 0;
        for (unsigned i = 0; i < 200; i++) {
                static const uint8_t tags[] = { 0x12, 0x32, 0x0a };
                uint8_t inner[4096];

                memcpy(inner, deep, len);
                deep[0] = i == 199 ? 0x0a : i == 198 ? 0x1a : i == 197 ? 0x0a : tags[(196 - i) % 3];
                deep[1] = (uint8_t) ((len & 0x7f) | 0x80);
                deep[2] = (uint8_t) (len >> 7);
                memcpy(deep + 3, inner, len);
                len += 3;
        }
        ASSERT_EQ(libtpu_metric_read(&r, LIBTPU_IDLE, deep, len, NOW, see, &s), -EBADMSG);
        ASSERT_EQ(s.n, 0);
}

static void test_memory_is_bounded(void) {
        static uint8_t many[LIBTPU_MESSAGE_MAX];
        _cleanup_libtpu_reader_ struct libtpu_reader r;
        bool offered[_LIBTPU_METRIC_MAX];

        libtpu_reader_init(&r);
        for (size_t i = 0; i + 1 < sizeof(many); i += 2)
                many[i] = 0x0a; /* an empty SupportedMetric in two bytes */
        ASSERT_EQ(libtpu_list_read(&r, many, sizeof(many), offered), -E2BIG);
        ASSERT_TRUE(r.memory.total <= LIBTPU_MEMORY_MAX);
        ASSERT_OK(libtpu_list_read(&r, many, 2000, offered));
        ASSERT_TRUE(r.memory.total < LIBTPU_MEMORY_MAX / 16);
}

static void test_list_and_requests(void) {
        _cleanup_libtpu_reader_ struct libtpu_reader r;
        Libtpu__ListSupportedMetricsResponse m = LIBTPU__LIST_SUPPORTED_METRICS_RESPONSE__INIT;
        Libtpu__SupportedMetric names[3], *list[] = { &names[0], &names[1], &names[2] };
        bool offered[_LIBTPU_METRIC_MAX];
        uint8_t buf[512];
        size_t len;

        libtpu_reader_init(&r);
        for (size_t i = 0; i < 3; i++)
                libtpu__supported_metric__init(&names[i]);
        names[0].metric_name = TEXT("slice.error.detected.gauge");
        names[1].metric_name = TEXT("of.tomorrow");
        names[2].metric_name = TEXT("tpu.runtime.tensorcore.dutycycle.percent");
        m.supported_metric = list;
        m.n_supported_metric = 3;
        len = libtpu__list_supported_metrics_response__pack(&m, buf);
        ASSERT_OK(libtpu_list_read(&r, buf, len, offered));
        for (enum libtpu_metric id = 0; id < _LIBTPU_METRIC_MAX; id++)
                ASSERT_EQ(offered[id], id == LIBTPU_SLICE_ERROR || id == LIBTPU_DUTY_CYCLE);
        ASSERT_EQ(libtpu_metric_request(LIBTPU_SLICE_ERROR, true, buf), 30);
        ASSERT_EQ(memcmp(buf, "\x0a\x1aslice.error.detected.gauge\x10\x01", 30), 0);
        ASSERT_EQ(libtpu_list_request(buf), 0);
        ASSERT_EQ(libtpu_status_request(buf), 2);
        ASSERT_EQ(memcmp(buf, "\x08\x01", 2), 0);
        for (enum libtpu_metric id = 0; id < _LIBTPU_METRIC_MAX; id++) {
                ASSERT_EQ(libtpu_find(libtpu_def(id)->name), id);
                ASSERT_TRUE(libtpu_metric_request(id, true, buf) <= LIBTPU_REQUEST_MAX);
        }
}

static void test_steady_state_allocates_nothing(void) {
        _cleanup_libtpu_reader_ struct libtpu_reader r;
        Libtpu__Gauge g = LIBTPU__GAUGE__INIT;
        Libtpu__Metric m = LIBTPU__METRIC__INIT, *list[100];
        struct seen s;
        size_t before;

        libtpu_reader_init(&r);
        g.value_case = LIBTPU__GAUGE__VALUE_AS_INT;
        m.measure_case = LIBTPU__METRIC__MEASURE_GAUGE;
        m.gauge = &g;
        for (size_t i = 0; i < ELEMENTSOF(list); i++)
                list[i] = &m;
        ASSERT_EQ(read_points(&r, LIBTPU_HBM_USAGE, list, ELEMENTSOF(list), &s), 100);
        ASSERT_TRUE(allocations > 0); /* they are counted */
        before = allocations;
        for (unsigned i = 0; i < 50; i++)
                ASSERT_EQ(read_points(&r, LIBTPU_HBM_USAGE, list, ELEMENTSOF(list), &s), 100);
        ASSERT_EQ(allocations - before, 0);
}

TEST_MAIN(test_device_in_each_encoding, test_numbers_that_are_none, test_bucket_options,
          test_distributions_that_make_no_sense, test_answers_of_others, test_memory_is_bounded,
          test_list_and_requests, test_steady_state_allocates_nothing)
