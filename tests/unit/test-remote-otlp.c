/* SPDX-License-Identifier: Apache-2.0 */
/* What the store has, as requests of OTLP. */
#include "gzip.h"
#include "otlp.pb-c.h"
#include "remote_otlp.h"
#include "test.h"

#define MS INT64_C(1795237200000)

static void *decoded(const struct remote_request *q, const ProtobufCMessageDescriptor *d) {
        _cleanup_free_ uint8_t *plain = NULL;
        const uint8_t *data = q->data;
        size_t len = q->len;
        void *m;

        if (len > 2 && data[0] == 0x1f && data[1] == 0x8b) {
                ASSERT_OK(inflate_gzip(q->data, q->len, 1 << 20, &plain, &len));
                data = plain;
        }
        m = protobuf_c_message_unpack(d, NULL, len, data);
        ASSERT_TRUE(m);
        return m;
}

static const char *text_of(Otlp__KeyValue *const *list, size_t n, const char *key) {
        for (size_t i = 0; i < n; i++)
                if (streq(list[i]->key, key))
                        return list[i]->value->string_value;
        return "";
}

static const char *of_resource(const Otlp__Resource *r, const char *key) {
        return text_of(r->attributes, r->n_attributes, key);
}

static void add(struct remote_otlp *b, const char *host, const char *service, const char *name,
                const char *attributes, const struct handed_point *points, size_t n) {
        const struct handed_series one = { .host = host,
                                           .slice = "s1",
                                           .accelerator_type = "v6e-16",
                                           .version = "0.2",
                                           .worker_id = 3,
                                           .name = name,
                                           .attributes = attributes,
                                           .service = service,
                                           .unit = "u",
                                           .points = points,
                                           .n = n };

        ASSERT_OK(remote_otlp_series(&one, b));
}

/* What is counted is cumulative and monotonic; a histogram is one again; a stranger's metric is a gauge. */
static void metrics(void) {
        static const struct handed_point ints[] = { { .ms = MS, .is_int = true, .i = 7, .d = 7 },
                                                    { .ms = MS + 10, .is_int = true, .i = 9, .d = 9 } },
                                         reals[] = { { .ms = MS, .d = 0.5 }, { .ms = MS + 10, .d = 2.5 } };
        _cleanup_remote_request_ struct remote_request q = { 0 };
        _cleanup_remote_otlp_ struct remote_otlp b = { .q = &q };
        Otlp__ExportMetricsServiceRequest *m;
        const Otlp__Metric *one;

        remote_request_begin(&q);
        add(&b, "h0", "tpu-hostd", "system.network.io", "{\"network.interface.name\":\"eth0\"}", ints, 2);
        add(&b, "h0", "tpu-hostd", "tpu.run.step.duration.count", "{\"tpu.run.name\":\"a\"}", ints, 2);
        add(&b, "h0", "tpu-hostd", "tpu.run.step.duration.count", "{\"tpu.run.name\":\"b\"}", ints, 2);
        add(&b, "h0", "tpu-hostd", "tpu.run.step.duration.sum", "{\"tpu.run.name\":\"a\"}", reals, 2);
        add(&b, "h0", "tpu-hostd", "tpu.run.step.number", "{\"tpu.run.name\":\"a\"}", ints, 1);
        add(&b, "h1", "train.py", "loss.count", "{\"fast\":true}", reals, 2);
        ASSERT_OK(remote_otlp_end(&b));
        ASSERT_EQ(q.samples, 7U);
        ASSERT_EQ(q.halves, 2U); /* b's */

        m = decoded(&q, &otlp__export_metrics_service_request__descriptor);
        ASSERT_EQ(m->n_resource_metrics, 2U);
        ASSERT_STREQ(of_resource(m->resource_metrics[0]->resource, "host.name"), "h0");
        ASSERT_STREQ(of_resource(m->resource_metrics[0]->resource, "service.name"), "tpu-hostd");
        ASSERT_STREQ(of_resource(m->resource_metrics[0]->resource, "service.instance.id"), "h0");
        ASSERT_STREQ(of_resource(m->resource_metrics[0]->resource, "tpu.slice.name"), "s1");
        ASSERT_STREQ(of_resource(m->resource_metrics[0]->resource, "tpu.worker.id"), "3");
        ASSERT_STREQ(of_resource(m->resource_metrics[0]->resource, "service.version"), "0.2");
        ASSERT_EQ(m->resource_metrics[0]->scope_metrics[0]->n_metrics, 3U);
        one = m->resource_metrics[0]->scope_metrics[0]->metrics[0];
        ASSERT_TRUE(one->sum && one->sum->is_monotonic);
        ASSERT_EQ(one->sum->aggregation_temporality, 2);
        ASSERT_EQ(one->sum->n_data_points, 2U);
        ASSERT_EQ(one->sum->data_points[1]->as_int, 9);
        ASSERT_EQ(one->sum->data_points[1]->time_unix_nano, (uint64_t) (MS + 10) * 1000000);
        ASSERT_EQ(one->sum->data_points[1]->start_time_unix_nano, 0U); /* nobody keeps it */
        one = m->resource_metrics[0]->scope_metrics[0]->metrics[1];
        ASSERT_STREQ(one->name, "tpu.run.step.duration");
        ASSERT_STREQ(one->unit, "s");
        ASSERT_EQ(one->histogram->aggregation_temporality, 2);
        ASSERT_EQ(one->histogram->n_data_points, 2U);
        ASSERT_EQ(one->histogram->data_points[1]->count, 9U);
        ASSERT_TRUE(one->histogram->data_points[1]->sum == 2.5);
        ASSERT_EQ(one->histogram->data_points[1]->bucket_counts[0], 9U);
        ASSERT_TRUE(m->resource_metrics[0]->scope_metrics[0]->metrics[2]->gauge);
        one = m->resource_metrics[1]->scope_metrics[0]->metrics[0];
        ASSERT_STREQ(one->name, "loss.count");
        ASSERT_TRUE(one->gauge && one->gauge->data_points[1]->as_double == 2.5);
        ASSERT_EQ(one->gauge->data_points[0]->attributes[0]->value->bool_value, 1);
        ASSERT_TRUE(!m->resource_metrics[1]->scope_metrics[0]->scope); /* it is not ours */
        otlp__export_metrics_service_request__free_unpacked(m, NULL);
}

/* More than a request of one resource may be: parts of it behind each other; and what is too large alone. */
static void large(void) {
        static char attributes[OTLP_REQUEST_MAX + 64];
        static const struct handed_point one[] = { { .ms = MS, .d = 1 } };
        _cleanup_remote_request_ struct remote_request q = { 0 };
        _cleanup_remote_otlp_ struct remote_otlp b = { .q = &q };
        Otlp__ExportMetricsServiceRequest *m;
        size_t n = 0;

        remote_request_begin(&q);
        memset(attributes, 'x', sizeof(attributes));
        memcpy(attributes, "{\"k\":\"", 6);
        memcpy(attributes + sizeof(attributes) - 3, "\"}", 3);
        add(&b, "h", "x", "m", attributes, one, 1);
        ASSERT_EQ(q.too_large, 1U);
        memcpy(attributes + 100000, "\"}", 3);
        for (unsigned i = 0; i < 25; i++)
                add(&b, "h", "x", "m", attributes, one, 1);
        ASSERT_OK(remote_otlp_end(&b));
        ASSERT_EQ(q.samples, 25U);
        ASSERT_TRUE(q.len < 200000); /* packed */
        {
                _cleanup_free_ uint8_t *plain = NULL;
                size_t len;

                ASSERT_OK(inflate_gzip(q.data, q.len, 4 << 20, &plain, &len));
                m = otlp__export_metrics_service_request__unpack(NULL, len, plain);
        }
        ASSERT_TRUE(m);
        ASSERT_EQ(m->n_resource_metrics, 3U);
        for (size_t i = 0; i < m->n_resource_metrics; i++)
                n += m->resource_metrics[i]->scope_metrics[0]->metrics[0]->gauge->n_data_points;
        ASSERT_EQ(n, 25U);
        otlp__export_metrics_service_request__free_unpacked(m, NULL);
}

static void add_event(struct remote_otlp *b, const char *host, const char *service, const char *body) {
        const struct store_event_row e = { .host = host,
                                           .slice = "s1",
                                           .worker_id = 3,
                                           .event = { .service = service,
                                                      .name = "tpu.host.state_changed",
                                                      .severity = 13,
                                                      .time = (usec_t) MS * 1000,
                                                      .body = body,
                                                      .attributes = "{\"tpu.spool.seq\":4}" } };

        ASSERT_OK(remote_otlp_event(b, &e));
}

static void records(void) {
        const struct store_line_row line = { .host = "h1",
                                             .line = { .run = "train",
                                                       .invocation = "i",
                                                       .text = "step 1",
                                                       .slice = "s1",
                                                       .worker_id = 0,
                                                       .generation = 2,
                                                       .number = 17,
                                                       .priority = 3,
                                                       .time = (usec_t) MS * 1000 } };
        _cleanup_remote_request_ struct remote_request q = { 0 };
        _cleanup_remote_otlp_ struct remote_otlp b = { .q = &q, .is_logs = true };
        Otlp__ExportLogsServiceRequest *m;
        const Otlp__LogRecord *r;

        remote_request_begin(&q);
        add_event(&b, "h0", "tpu-hostd", "{\"state\":\"ready\",\"n\":5}");
        add_event(&b, "h0", "tpu-hostd", "\"a sentence\"");
        add_event(&b, "h0", "other", "null");
        ASSERT_OK(remote_otlp_line(&b, &line));
        ASSERT_OK(remote_otlp_end(&b));
        ASSERT_EQ(q.samples, 4U);

        m = decoded(&q, &otlp__export_logs_service_request__descriptor);
        ASSERT_EQ(m->n_resource_logs, 3U);
        ASSERT_EQ(m->resource_logs[0]->scope_logs[0]->n_log_records, 2U);
        ASSERT_STREQ(of_resource(m->resource_logs[1]->resource, "service.name"), "other");
        ASSERT_STREQ(of_resource(m->resource_logs[2]->resource, "tpu.run.name"), "train");
        ASSERT_STREQ(of_resource(m->resource_logs[2]->resource, "tpu.worker.id"), "0");
        r = m->resource_logs[0]->scope_logs[0]->log_records[0];
        ASSERT_STREQ(r->event_name, "tpu.host.state_changed");
        ASSERT_EQ(r->severity_number, 13U);
        ASSERT_STREQ(r->severity_text, "WARN");
        ASSERT_EQ(r->time_unix_nano, (uint64_t) MS * 1000000);
        ASSERT_STREQ(text_of(r->body->kvlist_value->values, r->body->kvlist_value->n_values, "state"),
                     "ready");
        ASSERT_EQ(r->attributes[0]->value->int_value, 4);
        ASSERT_STREQ(m->resource_logs[0]->scope_logs[0]->log_records[1]->body->string_value, "a sentence");
        ASSERT_TRUE(!m->resource_logs[1]->scope_logs[0]->log_records[0]->body);
        r = m->resource_logs[2]->scope_logs[0]->log_records[0];
        ASSERT_STREQ(r->event_name, "tpu.run.line");
        ASSERT_STREQ(r->severity_text, "ERROR");
        ASSERT_STREQ(r->body->string_value, "step 1");
        ASSERT_STREQ(text_of(r->attributes, r->n_attributes, "tpu.run.invocation"), "i");
        ASSERT_EQ(r->attributes[2]->value->int_value, 17);
        otlp__export_logs_service_request__free_unpacked(m, NULL);
}

TEST_MAIN(metrics, large, records)
