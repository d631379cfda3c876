/* SPDX-License-Identifier: Apache-2.0 */
/* With OTLP_DUMP=DIR the bytes are written there, for otlp_wire.py to read by its own means. */
#include <fcntl.h>
#include <math.h>

#include "otlp.h"
#include "otlp_look.h"
#include "otlp.pb-c.h"
#include "test.h"

#define T0 (1795237200 * USEC_PER_SEC)

static struct otlp *make(void) {
        const struct otlp_attribute resource[] = { { .key = "host.name", .text = "h0" },
                                                   { .key = "tpu.worker", .number = 3 } };
        struct otlp *o = NULL;

        ASSERT_OK(otlp_new(resource, ELEMENTSOF(resource), "0.1", &o));
        return o;
}

static void dump(const char *name, const void *data, size_t len) {
        const char *dir = getenv("OTLP_DUMP");
        char path[512];
        int fd;

        if (!dir)
                return;
        (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ(write(fd, data, len), (ssize_t) len);
        (void) close(fd);
}

static void add_sample_points(struct otlp *o) {
        const struct otlp_attribute eth0[] = { { .key = "network.interface.name", .text = "eth0" },
                                               { .key = "queue", .number = 7 } };
        const struct otlp_attribute eth1[] = { { .key = "network.interface.name", .text = "eth1" } };
        struct otlp_point p = { .name = "system.network.io",
                                .unit = "By",
                                .description = "bytes",
                                .counter = true,
                                .is_int = true,
                                .i = 123456789012,
                                .time_real = T0 + 1,
                                .start_real = T0,
                                .attributes = eth0,
                                .n_attributes = 2 };

        ASSERT_OK(otlp_add_point(o, &p));
        ASSERT_OK(otlp_add_point(
                o, &(struct otlp_point){ .name = "tpu.load", .d = -0.25, .time_real = T0 + 2 }));
        p.attributes = eth1;
        p.n_attributes = 1;
        p.i = -1;
        ASSERT_OK(otlp_add_point(o, &p));
        p.counter = false;
        ASSERT_EQ(otlp_add_point(o, &p), -EINVAL); /* the name is there as a counter */
}

static void test_metrics(void) {
        _cleanup_(otlp_freep) struct otlp *o = make();
        Otlp__ExportMetricsServiceRequest *m;
        const Otlp__ScopeMetrics *scope;
        const void *data;
        size_t len;

        ASSERT_EQ(otlp_encode_metrics(o, &data, &len), -ENODATA);
        add_sample_points(o);
        ASSERT_OK(otlp_encode_metrics(o, &data, &len));
        dump("metrics", data, len);
        m = otlp__export_metrics_service_request__unpack(NULL, len, data);
        ASSERT_TRUE(m);
        ASSERT_EQ(m->n_resource_metrics, 1);
        ASSERT_EQ(m->resource_metrics[0]->resource->n_attributes, 2);
        ASSERT_STREQ(m->resource_metrics[0]->resource->attributes[0]->value->string_value, "h0");
        ASSERT_EQ(m->resource_metrics[0]->resource->attributes[1]->value->int_value, 3);
        scope = m->resource_metrics[0]->scope_metrics[0];
        ASSERT_STREQ(scope->scope->version, "0.1");
        ASSERT_EQ(scope->n_metrics, 2);
        ASSERT_STREQ(scope->metrics[0]->name, "system.network.io");
        ASSERT_STREQ(scope->metrics[0]->unit, "By");
        ASSERT_EQ(scope->metrics[0]->sum->n_data_points, 2);
        ASSERT_TRUE(scope->metrics[0]->sum->is_monotonic);
        ASSERT_EQ(scope->metrics[0]->sum->data_points[0]->as_int, 123456789012);
        ASSERT_EQ(scope->metrics[0]->sum->data_points[1]->as_int, -1);
        ASSERT_EQ(scope->metrics[0]->sum->data_points[0]->start_time_unix_nano, T0 * 1000);
        ASSERT_STREQ(scope->metrics[0]->sum->data_points[1]->attributes[0]->value->string_value, "eth1");
        ASSERT_TRUE(scope->metrics[1]->gauge->data_points[0]->as_double == -0.25);
        ASSERT_EQ(scope->metrics[1]->gauge->data_points[0]->start_time_unix_nano, 0);
        otlp__export_metrics_service_request__free_unpacked(m, NULL);
        ASSERT_EQ(otlp_encode_metrics(o, &data, &len), -ENODATA);
}

static void test_event(void) {
        const struct otlp_attribute body[] = { { .key = "found", .text = "mtu 1460" },
                                               { .key = "wanted", .number = 8896 } };
        const struct otlp_attribute attributes[] = { { .key = "tpu.spool.seq", .number = 42 } };
        const struct otlp_event e = { .name = "tpu.nic.mtu_drift",
                                      .severity = SEVERITY_WARN,
                                      .time_real = T0,
                                      .body = body,
                                      .n_body = 2,
                                      .attributes = attributes,
                                      .n_attributes = 1 };
        _cleanup_(otlp_freep) struct otlp *o = make();
        Otlp__ExportLogsServiceRequest *m;
        const Otlp__LogRecord *r;
        const void *data;
        size_t len;

        ASSERT_OK(otlp_add_point(o, &(struct otlp_point) { .name = "waits", .d = 1 }));
        ASSERT_OK(otlp_encode_event(o, &e, &data, &len));
        dump("event", data, len);
        m = otlp__export_logs_service_request__unpack(NULL, len, data);
        ASSERT_TRUE(m);
        r = m->resource_logs[0]->scope_logs[0]->log_records[0];
        ASSERT_STREQ(r->event_name, "tpu.nic.mtu_drift");
        ASSERT_STREQ(r->severity_text, "WARN");
        ASSERT_EQ(r->severity_number, 13);
        ASSERT_EQ(r->body->value_case, OTLP__ANY_VALUE__VALUE_KVLIST_VALUE);
        ASSERT_EQ(r->body->kvlist_value->n_values, 2);
        ASSERT_EQ(r->body->kvlist_value->values[1]->value->int_value, 8896);
        ASSERT_EQ(r->attributes[0]->value->int_value, 42);
        otlp__export_logs_service_request__free_unpacked(m, NULL);
        ASSERT_OK(otlp_encode_metrics(o, &data, &len)); /* the point was not lost */
}

static void test_utf8(void) {
        static const struct {
                const char *in, *out;
        } table[] = {
                { "plain", "plain" },
                { "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80" },
                { "a\xff" "b", "a?b" },
                { "\xc0\xaf", "??" },         /* overlong */
                { "\xed\xa0\x80", "???" },    /* a surrogate */
                { "\xf4\x90\x80\x80", "????" }, /* above U+10FFFF */
                { "cut\xe2\x82", "cut??" },
        };
        _cleanup_(otlp_freep) struct otlp *o = make();

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                const struct otlp_attribute a[] = { { .key = "k", .text = table[i].in } };
                const struct otlp_event e = {
                        .name = "n", .severity = SEVERITY_INFO, .attributes = a, .n_attributes = 1
                };
                Otlp__ExportLogsServiceRequest *m;
                const void *data;
                size_t len;

                ASSERT_OK(otlp_encode_event(o, &e, &data, &len));
                m = otlp__export_logs_service_request__unpack(NULL, len, data);
                ASSERT_TRUE(m);
                ASSERT_STREQ(m->resource_logs[0]
                                     ->scope_logs[0]
                                     ->log_records[0]
                                     ->attributes[0]
                                     ->value->string_value,
                             table[i].out);
                otlp__export_logs_service_request__free_unpacked(m, NULL);
        }
}

static void test_limits(void) {
        _cleanup_(otlp_freep) struct otlp *o = make();
        _cleanup_free_ char *text = malloc(OTLP_REQUEST_MAX + 1);
        const struct otlp_attribute a[] = { { .key = "text", .text = text } };
        struct otlp_event e = { .name = "big", .severity = SEVERITY_INFO, .body = a, .n_body = 1 };
        struct otlp_point p = { .name = "m", .d = 1, .attributes = a, .n_attributes = 1 };
        const void *data;
        size_t len, n = 0;
        int r;

        ASSERT_TRUE(text);
        memset(text, 'x', OTLP_REQUEST_MAX);
        text[OTLP_REQUEST_MAX] = '\0';
        ASSERT_EQ(otlp_encode_event(o, &e, &data, &len), -E2BIG);
        text[OTLP_REQUEST_MAX - 1024] = '\0';
        ASSERT_OK(otlp_encode_event(o, &e, &data, &len));
        ASSERT_TRUE(len <= OTLP_REQUEST_MAX);
        text[1000] = '\0';
        while ((r = otlp_add_point(o, &p)) == 0)
                n++;
        ASSERT_EQ(r, -E2BIG);
        ASSERT_TRUE(n > 900);
        ASSERT_OK(otlp_encode_metrics(o, &data, &len));
        ASSERT_TRUE(len <= OTLP_REQUEST_MAX && len > OTLP_REQUEST_MAX * 9 / 10);
        p.n_attributes = OTLP_ATTRIBUTES_MAX + 1;
        p.attributes = (const struct otlp_attribute[OTLP_ATTRIBUTES_MAX + 1]) {
                a[0], a[0], a[0], a[0], a[0], a[0], a[0], a[0], a[0], a[0], a[0], a[0], a[0]
        };
        ASSERT_EQ(otlp_add_point(o, &p), -EINVAL);
}

static void add_histogram(struct otlp *o, const char *name, const struct otlp_histogram *h, int wanted) {
        const struct otlp_attribute a[] = { { .key = "tpu.buffer.size", .text = "1MB+" } };
        const struct otlp_point p = { .name = name,
                                      .unit = "s",
                                      .histogram = h,
                                      .time_real = T0 + 1,
                                      .start_real = T0,
                                      .attributes = a,
                                      .n_attributes = 1 };

        ASSERT_EQ(otlp_add_point(o, &p), wanted);
}

static void test_histogram(void) {
        static const double bounds[] = { 0.5, 1, 2 };
        static const uint64_t counts[] = { 1, 0, 3, 4 };
        const struct otlp_histogram h = { 8, 12.5, 0.25, 9, bounds, counts, 3 };
        const struct otlp_histogram plain = { 8, 12.5, (double) NAN, (double) NAN, NULL, &(uint64_t){ 8 },
                                              0 };
        const struct otlp_histogram counted = { 8, (double) NAN, (double) NAN, (double) NAN, NULL,
                                                &(uint64_t){ 8 }, 0 };
        _cleanup_(otlp_freep) struct otlp *o = make();
        Otlp__ExportMetricsServiceRequest *m;
        const Otlp__HistogramDataPoint *p;
        const void *data;
        size_t len;

        add_histogram(o, "h", &h, 0);
        add_histogram(o, "h", &plain, 0);
        add_histogram(o, "h", &counted, 0);
        /* it is a histogram */
        ASSERT_EQ(otlp_add_point(o, &(struct otlp_point){ .name = "h", .d = 1 }), -EINVAL);
        ASSERT_OK(otlp_encode_metrics(o, &data, &len));
        m = otlp__export_metrics_service_request__unpack(NULL, len, data);
        ASSERT_TRUE(m);
        ASSERT_EQ(m->resource_metrics[0]->scope_metrics[0]->n_metrics, 1);
        const Otlp__Metric *t = m->resource_metrics[0]->scope_metrics[0]->metrics[0];
        ASSERT_EQ(t->data_case, OTLP__METRIC__DATA_HISTOGRAM);
        ASSERT_EQ(t->histogram->aggregation_temporality, 2);
        ASSERT_EQ(t->histogram->n_data_points, 3);
        p = t->histogram->data_points[0];
        ASSERT_EQ(p->count, 8);
        ASSERT_TRUE(p->sum == 12.5 && p->min == 0.25 && p->max == 9);
        ASSERT_EQ(p->time_unix_nano, (T0 + 1) * 1000);
        ASSERT_EQ(p->start_time_unix_nano, T0 * 1000);
        ASSERT_TRUE(p->n_explicit_bounds == 3 && memcmp(p->explicit_bounds, bounds, sizeof(bounds)) == 0);
        ASSERT_TRUE(p->n_bucket_counts == 4 && memcmp(p->bucket_counts, counts, sizeof(counts)) == 0);
        ASSERT_STREQ(p->attributes[0]->value->string_value, "1MB+");
        p = t->histogram->data_points[1];
        ASSERT_EQ(p->min__case, OTLP__HISTOGRAM_DATA_POINT__MIN___NOT_SET);
        ASSERT_TRUE(p->n_explicit_bounds == 0 && p->n_bucket_counts == 1 && p->bucket_counts[0] == 8);
        ASSERT_EQ(p->sum__case, OTLP__HISTOGRAM_DATA_POINT__SUM__SUM);
        p = t->histogram->data_points[2];
        ASSERT_EQ(p->sum__case, OTLP__HISTOGRAM_DATA_POINT__SUM___NOT_SET);
        otlp__export_metrics_service_request__free_unpacked(m, NULL);
}

/* The size is known before: no request is too long in the end. */
static void test_histogram_limits(void) {
        double bounds[500];
        uint64_t counts[501] = { 0 };
        const struct otlp_histogram h = { 0, 0, 0, 0, bounds, counts, 500 };
        const struct otlp_point p = { .name = "h", .histogram = &h, .time_real = T0, .start_real = T0 };
        _cleanup_(otlp_freep) struct otlp *o = make();
        const void *data;
        size_t len, n = 0;
        int r;

        for (size_t i = 0; i < 500; i++)
                bounds[i] = (double) i + 0.125;
        while ((r = otlp_add_point(o, &p)) == 0)
                n++;
        ASSERT_EQ(r, -E2BIG);
        ASSERT_TRUE(n > 120);
        ASSERT_OK(otlp_encode_metrics(o, &data, &len));
        ASSERT_TRUE(len <= OTLP_REQUEST_MAX && len > OTLP_REQUEST_MAX * 9 / 10);
}

/* What is stored is JSON; and requests behind each other are one. */
static void test_json(void) {
        json_t *attributes = json_loads("{\"a\":true,\"b\":-3,\"c\":0.5,\"d\":[1,\"x\"],\"e\":null,"
                                        "\"f\":{\"g\":\"h\"}}", 0, NULL),
               *body = json_loads("{\"reasons\":\"none\",\"n\":7}", 0, NULL);
        struct otlp_event e = { .name = "e", .time_real = T0, .json_attributes = attributes,
                                .json_body = body };
        const struct otlp_point p = { .name = "m", .d = 1, .time_real = T0, .labels = attributes };
        _cleanup_(otlp_freep) struct otlp *o = make();
        Otlp__ExportLogsServiceRequest *m;
        Otlp__ExportMetricsServiceRequest *points;
        _cleanup_free_ uint8_t *both = NULL;
        const void *data;
        size_t len;

        ASSERT_TRUE(attributes && body);
        ASSERT_OK(otlp_add_line(o, &e, OTLP_REQUEST_MAX));
        e.json_body = json_null();
        ASSERT_OK(otlp_add_line(o, &e, OTLP_REQUEST_MAX));
        ASSERT_OK(otlp_encode_lines(o, &data, &len));
        m = otlp__export_logs_service_request__unpack(NULL, len, data);
        ASSERT_TRUE(m);
        const Otlp__LogRecord *r = m->resource_logs[0]->scope_logs[0]->log_records[0];
        ASSERT_EQ(r->severity_number, 0);
        ASSERT_EQ(r->n_attributes, 6);
        ASSERT_EQ(r->attributes[0]->value->bool_value, 1);
        ASSERT_EQ(r->attributes[1]->value->int_value, -3);
        ASSERT_TRUE(r->attributes[2]->value->double_value == 0.5);
        ASSERT_EQ(r->attributes[3]->value->array_value->n_values, 2);
        ASSERT_STREQ(r->attributes[3]->value->array_value->values[1]->string_value, "x");
        ASSERT_EQ(r->attributes[4]->value->value_case, OTLP__ANY_VALUE__VALUE__NOT_SET);
        ASSERT_STREQ(r->attributes[5]->value->kvlist_value->values[0]->value->string_value, "h");
        ASSERT_EQ(r->body->kvlist_value->n_values, 2);
        ASSERT_STREQ(r->body->kvlist_value->values[0]->key, "reasons");
        ASSERT_TRUE(!m->resource_logs[0]->scope_logs[0]->log_records[1]->body);
        otlp__export_logs_service_request__free_unpacked(m, NULL);

        ASSERT_OK(otlp_add_point(o, &p));
        ASSERT_OK(otlp_encode_metrics(o, &data, &len));
        both = malloc(2 * len);
        ASSERT_TRUE(both);
        memcpy(both, data, len);
        memcpy(both + len, data, len);
        points = otlp__export_metrics_service_request__unpack(NULL, 2 * len, both);
        ASSERT_TRUE(points);
        ASSERT_EQ(points->n_resource_metrics, 2);
        ASSERT_EQ(points->resource_metrics[1]->scope_metrics[0]->metrics[0]->gauge->data_points[0]
                          ->n_attributes, 6);
        otlp__export_metrics_service_request__free_unpacked(points, NULL);
        json_decref(attributes);
        json_decref(body);
}

/* As of points and records with attributes: the size is known before. */
static void test_json_limits(void) {
        json_t *deep = json_array();
        struct otlp_event e = { .name = "e", .json_body = deep };
        _cleanup_(otlp_freep) struct otlp *o = make();
        const void *data;
        size_t len, n = 0;
        int r;

        for (unsigned i = 0; i < 200; i++)
                ASSERT_OK(json_array_append_new(deep, json_pack("{s:i}", "k", (int) i)));
        while ((r = otlp_add_line(o, &e, OTLP_REQUEST_MAX)) == 0)
                n++;
        ASSERT_EQ(r, -E2BIG);
        ASSERT_TRUE(n > 20);
        ASSERT_OK(otlp_encode_lines(o, &data, &len));
        ASSERT_TRUE(len <= OTLP_REQUEST_MAX);
        json_decref(deep);
}

static void test_age_of_a_record(void) {
        _cleanup_(otlp_freep) struct otlp *o = make();
        const struct otlp_event event = { .name = "e", .severity = SEVERITY_INFO,
                                          .time_real = 1234567890123456 };
        const void *data;
        size_t len;

        ASSERT_OK(otlp_encode_event(o, &event, &data, &len));
        ASSERT_EQ(otlp_first_log_time(data, len), event.time_real);
        ASSERT_EQ(otlp_first_log_time(data, 0), 0);
        for (size_t cut = 0; cut < len; cut++)
                (void) otlp_first_log_time(data, cut); /* the sanitizers look */
        for (int counter = 0; counter < 2; counter++) {
                const struct otlp_point point = { .name = "m", .counter = counter, .d = 1,
                                                  .time_real = 77000077 };

                ASSERT_OK(otlp_add_point(o, &point));
                ASSERT_OK(otlp_encode_metrics(o, &data, &len));
                ASSERT_EQ(otlp_first_point_time(data, len), 77000077);
                ASSERT_EQ(otlp_first_log_time(data, len), 0);
        }
}

TEST_MAIN(test_metrics, test_histogram, test_histogram_limits, test_event, test_utf8, test_limits,
          test_json, test_json_limits, test_age_of_a_record)
