/* SPDX-License-Identifier: Apache-2.0 */
/* The store of samples, the text format, and the names: documented, unique, and as OpenTelemetry and
 * Prometheus want them. */
#include "libtpu_metrics.h"
#include "metrics_text.h"
#include "proc_pid.h"
#include "probe.h"
#include "test.h"

static struct sample sample(const char *name, const char *unit, enum sample_kind kind, int64_t value,
                            const char *device) {
        return (struct sample){
                .name = name,
                .unit = unit,
                .description = "about it",
                .kind = kind,
                .is_int = true,
                .i = value,
                .keys = { device ? "network.interface.name" : NULL },
                .values = { device },
        };
}

static int take(struct sample_store *s, unsigned source, unsigned run, const struct sample *m) {
        const struct sample_origin o = { .source = source, .run = run, .now_real = 1000 };

        return sample_store_take(s, &o, m);
}

static void test_names(void) {
        static const struct {
                const char *name, *unit;
                enum sample_kind kind;
                const char *wanted;
        } cases[] = {
                { "system.network.io", "By", SAMPLE_COUNTER, "system_network_io_bytes" },
                { "system.memory.usage", "By", SAMPLE_GAUGE, "system_memory_usage_bytes" },
                { "system.memory.utilization", "1", SAMPLE_GAUGE, "system_memory_utilization_ratio" },
                { "process.cpu.time", "s", SAMPLE_COUNTER, "process_cpu_seconds" },
                { "process.memory.usage", "By", SAMPLE_GAUGE, "process_resident_memory_bytes" },
                { "system.cpu.time", "s", SAMPLE_COUNTER, "system_cpu_time_seconds" },
                { "tpu.run.tokens_per_second", "{token}/s", SAMPLE_GAUGE, "tpu_run_tokens_per_second" },
                { "tpu.run.work", "{FLOP}/s", SAMPLE_GAUGE, "tpu_run_work_per_second" },
                { "system.network.packet.count", "{packet}", SAMPLE_COUNTER,
                  "system_network_packet_count" },
                { "system.cpu.logical.count", "{cpu}", SAMPLE_GAUGE, "system_cpu_logical_cpus" },
                { "tpu.x.count", "1", SAMPLE_GAUGE, "tpu_x_count_ratio" },
                { "bytes", "By", SAMPLE_GAUGE, "bytes_bytes" },
                { "tpu.xbytes", "By", SAMPLE_GAUGE, "tpu_xbytes_bytes" },
                { "tpu.run.loss", NULL, SAMPLE_GAUGE, "tpu_run_loss" },
                { "tpu.x.bytes", "By", SAMPLE_GAUGE, "tpu_x_bytes" },
        };
        char buf[METRIC_NAME_MAX], overlong[200];
        struct sample m;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                m = sample(cases[i].name, cases[i].unit, cases[i].kind, 1, NULL);
                ASSERT_OK(metric_name(&m, buf));
                ASSERT_STREQ(buf, cases[i].wanted);
        }
        memset(overlong, 'a', sizeof(overlong) - 1);
        overlong[sizeof(overlong) - 1] = 0;
        m = sample(overlong, NULL, SAMPLE_GAUGE, 1, NULL);
        ASSERT_EQ(metric_name(&m, buf), -ENAMETOOLONG);
}

/* Families in one piece, whatever the order of arrival; labels escaped. */
static void test_text(void) {
        const struct metrics_about about = { .version = "1.2.3",
                                             .target = { { "host_name", "h0" },
                                                         { "tpu_slice_name", NULL } } };
        struct sample_store s;
        struct sample a = sample("system.network.io", "By", SAMPLE_COUNTER, 5, "eth0");
        struct sample b = sample("system.memory.usage", "By", SAMPLE_GAUGE, 7, NULL);
        struct sample c = sample("system.network.io", "By", SAMPLE_COUNTER, 6, "e\"t\\h\n1");
        char *text;
        size_t len;

        ASSERT_OK(sample_store_init(&s));
        ASSERT_OK(take(&s, 0, 1, &a));
        ASSERT_OK(take(&s, 0, 1, &b));
        ASSERT_OK(take(&s, 0, 1, &c));
        ASSERT_OK(metrics_text(&s, &about, &text, &len));
        ASSERT_STREQ(text,
                     "# HELP target_info The host that these numbers are of\n# TYPE target_info gauge\n"
                     "target_info{host_name=\"h0\"} 1\n"
                     "# HELP tpu_hostd_build_info The program that says them\n"
                     "# TYPE tpu_hostd_build_info gauge\ntpu_hostd_build_info{version=\"1.2.3\"} 1\n"
                     "# HELP system_memory_usage_bytes about it\n# TYPE system_memory_usage_bytes gauge\n"
                     "system_memory_usage_bytes 7\n"
                     "# HELP system_network_io_bytes_total about it\n# TYPE system_network_io_bytes_total "
                     "counter\n"
                     "system_network_io_bytes_total{network_interface_name=\"eth0\"} 5\n"
                     "system_network_io_bytes_total{network_interface_name=\"e\\\"t\\\\h\\n1\"} 6\n");
        ASSERT_EQ(len, strlen(text));
        free(text);
        sample_store_clear(&s);
}

static void test_store(void) {
        struct sample_store s;
        struct sample eth0 = sample("system.network.io", "By", SAMPLE_COUNTER, 5, "eth0");
        struct sample eth1 = sample("system.network.io", "By", SAMPLE_COUNTER, 6, "eth1");
        struct sample other = sample("tpu.x", NULL, SAMPLE_GAUGE, 9, NULL), bad = other;

        ASSERT_OK(sample_store_init(&s));
        ASSERT_OK(take(&s, 0, 1, &eth0));
        ASSERT_OK(take(&s, 0, 1, &eth1));
        ASSERT_OK(take(&s, 1, 1, &other));
        s.slots[0].fresh = false;
        eth0.i = 50;
        ASSERT_OK(take(&s, 0, 2, &eth0)); /* the same series again */
        ASSERT_EQ(s.n, 3);
        ASSERT_EQ(s.slots[0].sample.i, 50);
        ASSERT_TRUE(s.slots[0].fresh);
        eth1.i = 60;
        ASSERT_OK(take(&s, 0, 2, &eth1));
        sample_store_end_run(&s, 0, 2);
        ASSERT_EQ(s.n, 3);
        ASSERT_OK(take(&s, 0, 3, &eth1)); /* eth0 was removed */
        sample_store_end_run(&s, 0, 3);
        ASSERT_EQ(s.n, 2);
        ASSERT_STREQ(s.slots[0].sample.values[0], "eth1"); /* moved, with its texts */
        ASSERT_TRUE(s.slots[0].sample.values[0] == s.slots[0].texts);
        ASSERT_STREQ(s.slots[1].sample.name, "tpu.x");
        bad.is_int = false;
        bad.d = (double) NAN;
        ASSERT_EQ(take(&s, 1, 2, &bad), -EINVAL);
        ASSERT_EQ(s.refused, 1);
        sample_store_clear(&s);
}

/* A counter that steps back counts from when it was last seen; a gauge has no start. */
static void test_restart(void) {
        struct sample_store s;
        struct sample counter = sample("system.network.io", "By", SAMPLE_COUNTER, 500, "eth0"),
                      gauge = sample("tpu.x", NULL, SAMPLE_GAUGE, 9, NULL);
        struct sample_origin o = { .run = 1, .now_real = 2000, .start_real = 1000 };

        ASSERT_OK(sample_store_init(&s));
        ASSERT_OK(sample_store_take(&s, &o, &counter));
        ASSERT_OK(sample_store_take(&s, &o, &gauge));
        ASSERT_EQ(s.slots[0].start_real, 1000);
        o.now_real = 3000;
        counter.i = 500;
        gauge.i = 1;
        ASSERT_OK(sample_store_take(&s, &o, &counter)); /* the same value is no step back */
        ASSERT_OK(sample_store_take(&s, &o, &gauge));
        ASSERT_EQ(s.slots[0].start_real, 1000);
        ASSERT_EQ(s.slots[1].start_real, 1000);
        o.now_real = 4000;
        counter.i = 7;
        ASSERT_OK(sample_store_take(&s, &o, &counter));
        ASSERT_EQ(s.slots[0].start_real, 3000);
        o.now_real = 5000;
        counter.i = 600;
        ASSERT_OK(sample_store_take(&s, &o, &counter));
        ASSERT_EQ(s.slots[0].start_real, 3000); /* and goes on from there */
        o.start_real = 4500; /* a run of the same name was started again */
        ASSERT_OK(sample_store_take(&s, &o, &counter));
        ASSERT_EQ(s.slots[0].start_real, 4500);
        ASSERT_EQ(s.n, 2);
        sample_store_clear(&s);
}

/* In whatever order the series come, each is found again. */
static void test_order(void) {
        struct sample_store s;

        ASSERT_OK(sample_store_init(&s));
        for (unsigned round = 0; round < 3; round++)
                for (unsigned i = 0; i < 100; i++) {
                        char device[16];
                        struct sample m;

                        (void) snprintf(device, sizeof(device), "d%u", (i * 37 + round) % 100);
                        m = sample("tpu.x", NULL, SAMPLE_GAUGE, (int64_t) round, device);
                        ASSERT_OK(take(&s, 0, round, &m));
                }
        ASSERT_EQ(s.n, 100);
        for (size_t i = 0; i < s.n; i++)
                ASSERT_EQ(s.slots[i].sample.i, 2);
        sample_store_end_run(&s, 0, 9);
        ASSERT_EQ(s.n, 0);
        sample_store_clear(&s);
}

static void test_store_bound(void) {
        struct sample_store s;

        ASSERT_OK(sample_store_init(&s));
        for (int i = 0; i < SAMPLES_MAX + 10; i++) {
                char device[16];
                struct sample m;

                (void) snprintf(device, sizeof(device), "d%d", i);
                m = sample("tpu.x", NULL, SAMPLE_GAUGE, i, device);
                ASSERT_EQ(take(&s, 0, 1, &m), i < SAMPLES_MAX ? 0 : -ENOSPC);
        }
        ASSERT_EQ(s.refused, 10);
        sample_store_clear(&s);
}

static int take_histogram(struct sample_store *s, unsigned run, const char *device,
                          const struct sample_histogram *h) {
        struct sample m = sample("tpu.h", "s", SAMPLE_HISTOGRAM, 0, device);
        const struct sample_origin o = { .source = 0, .run = run, .now_real = run * 1000 };

        m.is_int = false;
        m.h = h;
        return sample_store_take(s, &o, &m);
}

/* Histograms are kept as copies, grow, start anew, move and go with their slots. */
static void test_histograms(void) {
        double bounds[SAMPLE_BUCKETS_MAX] = { 0.5, 1, 2 };
        uint64_t counts[SAMPLE_BUCKETS_MAX + 1] = { 1, 0, 3, 4 };
        struct sample_histogram h = { .count = 8, .sum = 12.5, .bounds = bounds, .counts = counts,
                                      .n_bounds = 3 };
        const struct sample_histogram *kept;
        struct sample_store s;

        ASSERT_OK(sample_store_init(&s));
        ASSERT_OK(take_histogram(&s, 1, "a", &h));
        ASSERT_OK(take_histogram(&s, 1, "b", &h));
        bounds[0] = 0.25;
        counts[3] = 5;
        kept = s.slots[0].sample.h;
        ASSERT_TRUE(kept->bounds[0] == 0.5 && kept->counts[3] == 4 && kept->count == 8);
        h.n_bounds = 4;
        bounds[3] = 4;
        h.count = 9;
        ASSERT_OK(take_histogram(&s, 2, "b", &h)); /* more buckets */
        kept = s.slots[1].sample.h;
        ASSERT_TRUE(kept->n_bounds == 4 && kept->bounds[3] == 4 && kept->counts[3] == 5 &&
                    kept->counts[4] == 0);
        ASSERT_EQ(s.slots[1].restarted_real, 0);
        h.count = 2;
        /* it stepped back: it counts from when it was last seen */
        ASSERT_OK(take_histogram(&s, 3, "b", &h));
        ASSERT_EQ(s.slots[1].start_real, 2000);
        sample_store_end_run(&s, 0, 3); /* a is gone, b has moved */
        ASSERT_EQ(s.n, 1);
        ASSERT_STREQ(s.slots[0].sample.values[0], "b");
        ASSERT_EQ(s.slots[0].sample.h->n_bounds, 4);
        ASSERT_OK(take_histogram(&s, 4, "a", &h));
        ASSERT_EQ(s.slots[1].sample.h->count, 2);
        h.n_bounds = SAMPLE_BUCKETS_MAX;
        ASSERT_EQ(take_histogram(&s, 5, "a", &h), -EINVAL);
        h.n_bounds = 0;
        h.sum = (double) NAN;
        ASSERT_EQ(take_histogram(&s, 5, "a", &h), -EINVAL);
        ASSERT_EQ(s.refused, 2);
        sample_store_clear(&s);
}

static void test_histogram_bound(void) {
        static double bounds[SAMPLE_BUCKETS_MAX];
        static uint64_t counts[SAMPLE_BUCKETS_MAX];
        struct sample_histogram h = { .bounds = bounds, .counts = counts,
                                      .n_bounds = SAMPLE_BUCKETS_MAX - 1 };
        struct sample_store s;
        char device[16];
        int r = 0;
        unsigned n;

        ASSERT_OK(sample_store_init(&s));
        for (n = 0; r == 0 && n < SAMPLES_MAX; n++) {
                (void) snprintf(device, sizeof(device), "d%u", n);
                r = take_histogram(&s, 1, device, &h);
        }
        ASSERT_EQ(r, -ENOSPC);
        ASSERT_TRUE(s.histogram_bytes <= SAMPLE_HISTOGRAM_BYTES && s.n == n - 1);
        sample_store_end_run(&s, 0, 2);
        ASSERT_EQ(s.histogram_bytes, 0);
        ASSERT_OK(take_histogram(&s, 3, "again", &h));
        sample_store_clear(&s);
}

/* --- What is documented -------------------------------------------------------------------------------- */

/* The metrics of both tables, as a sample with the keys that it is sent with. */
static struct sample published(size_t i) {
        struct sample m = { .name = NULL };

        if (i < _METRIC_MAX) {
                const struct metric_def *d = metric_def((enum metric_id) i);

                m = (struct sample) { .name = d->name, .unit = d->unit, .kind = d->kind };
                memcpy(m.keys, d->keys, sizeof(m.keys));
        } else {
                const struct libtpu_def *d = libtpu_def((enum libtpu_metric) (i - _METRIC_MAX));

                m = (struct sample) { .name = d->ours,
                                      .unit = d->unit,
                                      .kind = d->kind,
                                      .keys = { "tpu.run.name", "tpu.process", d->our_keys[0],
                                                d->our_keys[1] } };
        }
        return m;
}

static void prometheus_name(const struct sample *m, char buf[static METRIC_NAME_MAX + 8]) {
        ASSERT_OK(metric_name(m, buf));
        if (m->kind == SAMPLE_COUNTER)
                strcat(buf, "_total");
}

static void row_of(const struct sample *m, char *buf, size_t size) {
        static const char *const kinds[] = { [SAMPLE_GAUGE] = "gauge",
                                             [SAMPLE_COUNTER] = "counter",
                                             [SAMPLE_HISTOGRAM] = "histogram" };
        char name[METRIC_NAME_MAX + 8];
        int n;

        prometheus_name(m, name);
        n = snprintf(buf, size, "| `%s` | `%s` | %s |%s%s%s |", m->name, name, kinds[m->kind],
                     m->unit ? " `" : "",
                     m->unit ? m->unit : "", m->unit ? "`" : "");
        for (size_t i = 0; i < ELEMENTSOF(m->keys) && m->keys[i]; i++)
                n += snprintf(buf + n, size - (size_t) n, "%s `%s`", i > 0 ? "," : "", m->keys[i]);
        (void) snprintf(buf + n, size - (size_t) n, " | ");
}

#define PUBLISHED_MAX ((size_t) _METRIC_MAX + _LIBTPU_METRIC_MAX)

static void test_documented(void) {
        _cleanup_fclose_ FILE *f = fopen(DOCS "/metrics.md", "re");
        bool seen[PUBLISHED_MAX] = { 0 };
        char line[1024], row[512];

        ASSERT_TRUE(f != NULL);
        while (fgets(line, sizeof(line), f)) {
                size_t known = 0;

                for (size_t i = 0; startswith(line, "| `") && i < PUBLISHED_MAX; i++) {
                        const struct sample m = published(i);

                        row_of(&m, row, sizeof(row));
                        if (!startswith(line, row))
                                continue;
                        ASSERT_FALSE(seen[i]);
                        seen[i] = true;
                        known++;
                        if (i >= _METRIC_MAX) {
                                (void) snprintf(row + strlen(row), sizeof(row) - strlen(row), "`%s` |\n",
                                                libtpu_def((enum libtpu_metric) (i - _METRIC_MAX))->name);
                                ASSERT_STREQ(line, row);
                        }
                }
                if (startswith(line, "| `") && known != 1)
                        test_fail(__FILE__, __LINE__,
                                  "docs/metrics.md has a row that no table of metrics has: %s", line);
        }
        for (size_t i = 0; i < PUBLISHED_MAX; i++) {
                const struct sample m = published(i);

                row_of(&m, row, sizeof(row));
                if (!seen[i])
                        test_fail(__FILE__, __LINE__, "docs/metrics.md has no row \"%s…\"", row);
        }
}

/* What OpenTelemetry and Prometheus ask of names, for all metrics at once. */
static void test_naming(void) {
        char name[METRIC_NAME_MAX + 8], of_other[METRIC_NAME_MAX + 8];

        for (size_t i = 0; i < PUBLISHED_MAX; i++) {
                const struct sample m = published(i);

                prometheus_name(&m, name);
                for (size_t k = 0; k < ELEMENTSOF(m.keys) && m.keys[k]; k++)
                        if (!strchr(m.keys[k], '.')) /* "job" and "instance" are Prometheus' own */
                                test_fail(__FILE__, __LINE__, "%s has the attribute %s without a namespace",
                                          m.name, m.keys[k]);
                for (size_t j = 0; j < PUBLISHED_MAX; j++) {
                        const struct sample other = published(j);

                        if (i == j)
                                continue;
                        prometheus_name(&other, of_other);
                        if (streq(name, of_other))
                                test_fail(__FILE__, __LINE__, "%s and %s are both %s", m.name, other.name,
                                          name);
                        if (startswith(other.name, m.name) && other.name[strlen(m.name)] == '.')
                                test_fail(__FILE__, __LINE__, "%s is the namespace of %s", m.name,
                                          other.name);
                }
        }
}

/* A boolean or a state has no unit: "1" of a gauge reads as a ratio. */
static void test_ratios(void) {
        static const char *const ratios[] = { "tpu.hbm.utilization", "tpu.duty_cycle" };

        for (size_t i = 0; i < PUBLISHED_MAX; i++) {
                const struct sample m = published(i);
                bool is_ratio = false;

                for (size_t k = 0; k < ELEMENTSOF(ratios); k++)
                        is_ratio = is_ratio || streq(m.name, ratios[k]);
                if (is_ratio != (m.unit && streq(m.unit, "1")))
                        test_fail(__FILE__, __LINE__, "%s: the unit 1 is for ratios, see ratios[]", m.name);
        }
}

static void test_stat(void) {
        struct proc_pid_stat s;

        ASSERT_OK(proc_pid_stat_parse("1234 (a) b (c)) S 1 1234 1234 0 -1 4194560 2570 100 3 4 77 33 0 "
                                      "0 20 0",
                                      &s));
        ASSERT_STREQ(s.name, "a) b (c)");
        ASSERT_EQ(s.state, 'S');
        ASSERT_EQ(s.field[4], 1U);
        ASSERT_EQ(s.field[8], UINT64_MAX);
        ASSERT_EQ(s.field[14], 77U);
        ASSERT_EQ(s.field[15], 33U);
        ASSERT_EQ(s.n, 19U);
        ASSERT_EQ(s.field[20], 0U);
        ASSERT_EQ(proc_pid_stat_parse("1234 (a", &s), -EBADMSG);
        ASSERT_OK(proc_pid_stat_parse("1234 (a) S 1 2", &s));
        ASSERT_EQ(s.n, 5U);
}

TEST_MAIN(test_names, test_text, test_store, test_restart, test_order, test_store_bound, test_histograms,
          test_histogram_bound,
          test_documented, test_naming, test_ratios, test_stat)
