/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's lines: findings, samples and the last one, whole or cut off anywhere. */
#include "test.h"
#include "worker.h"

#define FINDING(n)                                                                                          \
        "{\"finding\":{\"verdict\":\"WARN\",\"check\":\"disk.free\",\"subject\":\"/" n                    \
        "\",\"found\":\"f\",\"wanted\":\"\","                                                             \
        "\"source\":\"\",\"reason\":\"\",\"remedy\":\"\"}}\n"

struct seen {
        struct sink sink;
        unsigned n;
        char last[64];
};

static void on_finding(struct sink *s, const struct finding *f) {
        struct seen *seen = (struct seen *) s;

        seen->n++;
        (void) snprintf(seen->last, sizeof(seen->last), "%s", f->subject);
}

/* What stands in whole lines counts, wherever it ends. */
static void test_cut(void) {
        static const char text[] = FINDING("a") FINDING("b") "{\"done\":0}\n";
        const size_t first = strlen(FINDING("a")), second = 2 * first;

        for (size_t len = 0; len < sizeof(text); len++) {
                struct seen seen = { .sink.finding = on_finding };
                struct wire_names n = { .n = 0 };

                ASSERT_EQ(wire_take(&n, text, len, &seen.sink), len == sizeof(text) - 1 ? 0 : -EPIPE);
                ASSERT_EQ(seen.n, (len >= first) + (len >= second));
                wire_clear(&n);
        }
}

static void test_ends(void) {
        static const char failed[] = FINDING("a") "{\"done\":-5}\n", garbage[] = "garbage\n";
        struct seen seen = { .sink.finding = on_finding };
        struct wire_names n = { .n = 0 };

        ASSERT_EQ(wire_take(&n, failed, strlen(failed), &seen.sink), -5);
        ASSERT_STREQ(seen.last, "/a");
        ASSERT_EQ(wire_take(&n, garbage, strlen(garbage), &seen.sink), -EBADMSG);
        /* of one that was killed, and of one that crashed */
        ASSERT_EQ(worker_take(&n, -ETIMEDOUT, failed, strlen(failed), &seen.sink), -ETIMEDOUT);
        ASSERT_EQ(worker_take(&n, -EIO, failed, strlen(FINDING("a")), &seen.sink), -EPIPE);
        ASSERT_EQ(seen.n, 3);
        wire_clear(&n);
}

/* --- Samples ------------------------------------------------------------------------------------------- */

static int measure(const struct host *h, const struct probe_context *c, struct sink *s) {
        (void) h;
        (void) c;
        put_int(s, METRIC_NIC_UP, 1, "eth0", "eth0", NULL);
        put_int(s, METRIC_LOGS_SIZE, 4096, NULL, NULL, NULL);
        return 0;
}

static void on_sample(struct sink *s, const struct sample *m) {
        struct seen *seen = (struct seen *) s;

        seen->n++;
        if (streq(m->name, "hw.network.up"))
                /* a boolean has no unit */
                ASSERT_TRUE(!m->unit && m->i == 1 && streq(m->values[1], "eth0"));
        else
                ASSERT_TRUE(streq(m->name, "tpu.logs.size") && streq(m->unit, "By") && m->i == 4096);
}

static void test_samples(void) {
        static const struct probe probe = { .name = "x", .run = measure };
        struct seen seen = { .sink = { on_finding, on_sample } };
        struct wire_names n = { .n = 0 };
        _cleanup_free_ char *text = NULL;
        size_t len = 0;
        FILE *f = open_memstream(&text, &len);

        ASSERT_TRUE(f != NULL);
        ASSERT_OK(wire_serve(&probe, NULL, NULL, f));
        ASSERT_OK(fclose(f));
        ASSERT_OK(wire_take(&n, text, len, &seen.sink));
        ASSERT_EQ(seen.n, 2);
        wire_clear(&n);
}

TEST_MAIN(test_cut, test_ends, test_samples)
