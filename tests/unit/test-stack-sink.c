/* SPDX-License-Identifier: Apache-2.0 */
/* What tpu-stack writes: JSON that jansson reads back, and text that moves no cursor. */
#include <jansson.h>

#include "text_sink.h"
#include "test.h"

struct written {
        char *text;
        size_t len;
        FILE *file;
        struct text_sink sink;
};

static void start(struct written *w) {
        w->text = NULL;
        w->file = open_memstream(&w->text, &w->len);
        ASSERT_TRUE(w->file != NULL);
        w->sink = (struct text_sink){ .file = w->file };
}

static void finish(struct written *w) {
        ASSERT_OK(sink_flush(&w->sink));
        ASSERT_EQ(w->sink.put, w->len);
        ASSERT_EQ(fclose(w->file), 0);
}

static void test_numbers(void) {
        struct written w;

        start(&w);
        sink_number(&w.sink, 0);
        sink_text(&w.sink, " ");
        sink_number(&w.sink, INT64_MIN);
        sink_text(&w.sink, " ");
        sink_number(&w.sink, INT64_MAX);
        sink_text(&w.sink, " ");
        sink_hex(&w.sink, UINT64_MAX);
        sink_text(&w.sink, " ");
        sink_hex(&w.sink, 0x1a0);
        finish(&w);
        ASSERT_STREQ(w.text, "0 -9223372036854775808 9223372036854775807 ffffffffffffffff 1a0");
        free(w.text);
}

static void test_json(void) {
        char all[0x80 + 8];
        struct written w;
        json_t *v;

        for (int c = 1; c < 0x80; c++)
                all[c - 1] = (char) c;
        memcpy(all + 0x7F, "é😀", sizeof("é😀"));
        start(&w);
        sink_json(&w.sink, all, strlen(all));
        finish(&w);
        v = json_loads(w.text, JSON_DECODE_ANY, NULL);
        ASSERT_TRUE(json_is_string(v));
        ASSERT_STREQ(json_string_value(v), all);
        json_decref(v);
        free(w.text);
}

static void test_shown(void) {
        struct written w;

        start(&w);
        sink_shown(&w.sink, "evil\n\x1b[2J\x7f \xC2\x9B é\tend\xE2\x80\xAEx\xE2\x81\xA9\xE2\x82\xAC\xD8\x9C");
        finish(&w);
        ASSERT_STREQ(w.text, "evil\\x0a\\x1b[2J\\x7f \\x9b é\\x09end\\u202ex\\u2069€\\u061c");
        free(w.text);
}

static void test_format(void) {
        struct written w;

        start(&w);
        sink_format(&w.sink, "%s %d", "a\nb", -3);
        sink_format(&w.sink, "; ");
        sink_format(&w.sink, "%lx%ld end", 0xbeefUL, -1L);
        finish(&w);
        ASSERT_STREQ(w.text, "a\\x0ab -3; beef-1 end");
        free(w.text);
}

static void test_failure(void) {
        FILE *full = fopen("/dev/full", "w");
        struct text_sink s = { .file = full };

        ASSERT_TRUE(full != NULL);
        sink_text(&s, "lost");
        ASSERT_EQ(sink_flush(&s), -EIO);
        (void) fclose(full); /* fails, too */
}

TEST_MAIN(test_numbers, test_json, test_shown, test_format, test_failure)
