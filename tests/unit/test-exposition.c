/* SPDX-License-Identifier: Apache-2.0 */
/* The format byte by byte. */
#include "exposition.h"
#include "test.h"

static char *written(void) {
        static const struct exposition_family info = { .name = "x_build", .help = "a \"b\"\\\n",
                                                       .kind = EXPOSITION_INFO },
                                              counter = { .name = "x_bytes",
                                                          .help = "c",
                                                          .kind = EXPOSITION_COUNTER },
                                              gauge = { .name = "x", .help = "g" };
        const struct exposition_label labels[] = { { "a", "1\"\\\n" }, { "b", "\xff\xc3\xa9" } };
        struct exposition e;
        char *text;
        size_t len;

        ASSERT_OK(exposition_begin(&e));
        exposition_family(&e, &info);
        exposition_int(&e, labels, 2, 1);
        exposition_family(&e, &counter);
        exposition_int(&e, NULL, 0, INT64_MAX);
        exposition_family(&e, &gauge);
        exposition_real(&e, labels, 1, 0.5);
        exposition_real(&e, NULL, 0, (double) NAN);
        exposition_real(&e, NULL, 0, (double) -INFINITY);
        exposition_real(&e, NULL, 0, (double) INFINITY);
        ASSERT_OK(exposition_end(&e, &text, &len));
        ASSERT_EQ(len, strlen(text));
        return text;
}

static void test_formats(void) {
        char *text = written();

        ASSERT_STREQ(text, "# HELP x_build_info a \"b\"\\\\\\n\n# TYPE x_build_info gauge\n"
                           "x_build_info{a=\"1\\\"\\\\\\n\",b=\"?\xc3\xa9\"} 1\n"
                           "# HELP x_bytes_total c\n# TYPE x_bytes_total counter\n"
                           "x_bytes_total 9223372036854775807\n"
                           "# HELP x g\n# TYPE x gauge\nx{a=\"1\\\"\\\\\\n\"} 0.5\nx NaN\nx -Inf\nx +Inf\n");
        free(text);
}

static void test_long_values_are_cut(void) {
        char longer[EXPOSITION_VALUE_MAX * 2], *text;
        const struct exposition_label label = { "a", longer };
        static const struct exposition_family gauge = { .name = "x", .help = "g" };
        struct exposition e;
        size_t len;

        memset(longer, 'v', sizeof(longer) - 1);
        longer[sizeof(longer) - 1] = 0;
        ASSERT_OK(exposition_begin(&e));
        exposition_family(&e, &gauge);
        exposition_int(&e, &label, 1, 1);
        ASSERT_OK(exposition_end(&e, &text, &len));
        ASSERT_TRUE(len < EXPOSITION_VALUE_MAX + 64);
        free(text);
        ASSERT_OK(exposition_begin(&e));
        exposition_drop(&e);
}

/* Bounds as Go's client prints them: readers compare texts. */
static void test_histogram(void) {
        static const struct exposition_family seconds = { .name = "x_seconds",
                                                          .help = "h",
                                                          .kind = EXPOSITION_HISTOGRAM };
        static const double bounds[] = { -1, 1e-6, 0.3, 1, 250000, 1e6, 2.5e6, 1e21 };
        static const uint64_t counts[] = { 1, 0, 2, 3, 0, 0, 0, 4, 5 };
        const struct exposition_label label = { "a", "b" };
        struct exposition e;
        char *text;
        size_t len;

        ASSERT_OK(exposition_begin(&e));
        exposition_family(&e, &seconds);
        exposition_histogram(&e, &label, 1, bounds, counts, ELEMENTSOF(bounds), 12.5);
        exposition_histogram(&e, NULL, 0, NULL, counts + 8, 0, 7);
        ASSERT_OK(exposition_end(&e, &text, &len));
        ASSERT_STREQ(text, "# HELP x_seconds h\n# TYPE x_seconds histogram\n"
                           "x_seconds_bucket{a=\"b\",le=\"-1.0\"} 1\n"
                           "x_seconds_bucket{a=\"b\",le=\"1e-06\"} 1\n"
                           "x_seconds_bucket{a=\"b\",le=\"0.3\"} 3\nx_seconds_bucket{a=\"b\",le=\"1.0\"} 6\n"
                           "x_seconds_bucket{a=\"b\",le=\"250000.0\"} 6\n"
                           "x_seconds_bucket{a=\"b\",le=\"1e+06\"} 6\n"
                           "x_seconds_bucket{a=\"b\",le=\"2.5e+06\"} 6\n"
                           "x_seconds_bucket{a=\"b\",le=\"1e+21\"} 10\n"
                           "x_seconds_bucket{a=\"b\",le=\"+Inf\"} 15\nx_seconds_count{a=\"b\"} 15\n"
                           "x_seconds_sum{a=\"b\"} 12.5\nx_seconds_bucket{le=\"+Inf\"} 5\n"
                           "x_seconds_count 5\n"
                           "x_seconds_sum 7\n");
        free(text);
}

TEST_MAIN(test_formats, test_histogram, test_long_values_are_cut)
