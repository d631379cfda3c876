/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's lines, however they come in pieces: the same findings and samples, and no memory between
 * them. */
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

static void test_pieces(void) {
        static const char text[] = FINDING("a") FINDING("b") "{\"done\":0}\n";

        for (size_t piece = 1; piece < sizeof(text); piece++) {
                struct seen seen = { .sink.finding = on_finding };
                struct wire_reader r = { 0 };

                for (size_t at = 0; at < sizeof(text) - 1; at += piece)
                        ASSERT_OK(wire_take(&r, text + at, MIN(piece, sizeof(text) - 1 - at), &seen.sink));
                ASSERT_EQ(seen.n, 2);
                ASSERT_STREQ(seen.last, "/b");
                ASSERT_TRUE(r.done && !r.line);
                wire_clear(&r);
        }
}

/* A line that is too long is refused, in one piece and in many; one that ends early leaves nothing
 * behind. */
static void test_long(void) {
        static char line[WIRE_LINE_MAX + 1];
        struct seen seen = { .sink.finding = on_finding };
        struct wire_reader r = { 0 };
        int e = 0;

        memset(line, ' ', sizeof(line));
        ASSERT_EQ(wire_take(&r, line, sizeof(line), &seen.sink), -E2BIG);
        wire_clear(&r);
        for (size_t i = 0; i < sizeof(line) && e == 0; i++)
                e = wire_take(&r, line + i, 1, &seen.sink);
        ASSERT_EQ(e, -E2BIG);
        wire_clear(&r);
        ASSERT_TRUE(!r.line);
        ASSERT_OK(wire_take(&r, "{\"don", 5, &seen.sink));
        ASSERT_OK(wire_take(&r, "e\":-5}\n", 7, &seen.sink));
        ASSERT_EQ(r.result, -5);
        wire_clear(&r);
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
        struct wire_reader r = { 0 };
        _cleanup_free_ char *text = NULL;
        size_t len = 0;
        FILE *f = open_memstream(&text, &len);

        ASSERT_TRUE(f != NULL);
        ASSERT_OK(wire_serve(&probe, NULL, NULL, f));
        ASSERT_OK(fclose(f));
        ASSERT_OK(wire_take(&r, text, len, &seen.sink));
        ASSERT_TRUE(seen.n == 2 && r.done && r.result == 0);
        wire_clear(&r);
}

TEST_MAIN(test_pieces, test_long, test_samples)
