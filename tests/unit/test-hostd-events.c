/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of events, and text that goes on the wire. */
#include "event_ring.h"
#include "test.h"
#include "utf8.h"

static void add(struct event_ring *r, int64_t number) {
        ASSERT_OK(event_ring_add(r, EVENT_AS(SPOOL_DAMAGED, SEVERITY_ERROR, .class = "a \"b\"",
                                             .damaged = number),
                                 (usec_t) 1795237200123000));
}

static void test_ring(void) {
        struct event_ring *r = calloc(1, sizeof(*r));
        json_t *v, *first;

        ASSERT_TRUE(r);
        event_ring_init(r);
        v = event_ring_to_json(r, 0, true);
        ASSERT_EQ(json_array_size(json_object_get(v, "events")), 0);
        ASSERT_EQ(json_integer_value(json_object_get(v, "next")), 1);
        json_decref(v);
        for (int64_t i = 1; i <= EVENT_RING + 44; i++)
                add(r, i);
        v = event_ring_to_json(r, 0, true);
        ASSERT_EQ(json_array_size(json_object_get(v, "events")), EVENT_RING);
        first = json_array_get(json_object_get(v, "events"), 0);
        ASSERT_EQ(json_integer_value(json_object_get(first, "seq")), 45); /* the 44 oldest are gone */
        ASSERT_EQ(json_integer_value(json_object_get(json_object_get(first, "body"), "damaged")), 45);
        ASSERT_STREQ(json_string_value(json_object_get(json_object_get(first, "body"), "class")), "a \"b\"");
        ASSERT_STREQ(json_string_value(json_object_get(first, "name")), "tpu.spool.damaged");
        ASSERT_STREQ(json_string_value(json_object_get(first, "severity")), "ERROR");
        ASSERT_STREQ(json_string_value(json_object_get(first, "time")), "2026-11-21T05:00:00.123Z");
        ASSERT_EQ(json_integer_value(json_object_get(v, "next")), EVENT_RING + 45);
        ASSERT_EQ(json_integer_value(json_object_get(v, "missed")), 0); /* nobody said since when */
        json_decref(v);
        v = event_ring_to_json(r, 3, true);
        ASSERT_EQ(json_integer_value(json_object_get(v, "missed")), 42);
        json_decref(v);
        v = event_ring_to_json(r, 45, true);
        ASSERT_EQ(json_integer_value(json_object_get(v, "missed")), 0);
        json_decref(v);
        v = event_ring_to_json(r, EVENT_RING + 44, true);
        ASSERT_EQ(json_array_size(json_object_get(v, "events")), 1);
        json_decref(v);
        v = event_ring_to_json(r, UINT64_MAX, true);
        ASSERT_EQ(json_array_size(json_object_get(v, "events")), 0);
        json_decref(v);
        event_ring_clear(r);
        free(r);
}

/* Stacks are for who may see those of every run; that there are some is no secret. */
static void test_text_of_stacks(void) {
        struct event_ring *r = calloc(1, sizeof(*r));

        ASSERT_TRUE(r);
        event_ring_init(r);
        ASSERT_OK(event_ring_add(r,
                                 EVENT_OF(STACK_CAPTURED, .verb = "", .node = "", .slice = "", .worker = "",
                                          .taken = "", .run = "llama", .text = "secret()"),
                                 1));
        ASSERT_OK(event_ring_add(r,
                                 EVENT_OF(RUN_CAPTURED, .verb = "", .node = "", .slice = "", .worker = "",
                                          .taken = "", .episode = "", .problem = "", .run = "llama",
                                          .text = "secret()"),
                                 1));
        ASSERT_OK(event_ring_add(r,
                                 EVENT_OF(STACK_FILE, .verb = "", .node = "", .slice = "", .worker = "",
                                          .zone = "", .file = "", .kind = "", .reason = "", .written = "",
                                          .run = "llama", .text = "secret()"),
                                 1));
        ASSERT_OK(event_ring_add(
                r, EVENT_OF(RUNTIME_ERROR, .kind = "", .type = "", .run = "llama", .text = "of libtpu"), 1));
        for (int stacks = 0; stacks <= 1; stacks++) {
                json_t *v = event_ring_to_json(r, 0, stacks == 1), *item;
                size_t i;

                json_array_foreach(json_object_get(v, "events"), i, item) {
                        json_t *body = json_object_get(item, "body");

                        ASSERT_STREQ(json_string_value(json_object_get(body, "run")), "llama");
                        ASSERT_EQ(json_object_get(body, "text") != NULL, stacks == 1 || i == 3);
                }
                json_decref(v);
        }
        event_ring_clear(r);
        free(r);
}

static void test_utf8(void) {
        static const struct {
                const char *in, *out;
        } cases[] = {
                { "plain\ttext\n", "plain\ttext\n" },
                { "\xc3\xa4\xe2\x80\xa6\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x80\xa6\xf0\x9f\x98\x80" },
                { "a\x80z", "a?z" },                 /* a continuation alone */
                { "\xc0\xaf", "??" },                /* overlong */
                { "\xed\xa0\x80", "???" },           /* surrogate */
                { "\xf4\x90\x80\x80", "????" },      /* beyond U+10FFFF */
                { "\xc2\x9b" "31m", "??31m" },      /* a control of the C1 set */
                { "\xe2\x80", "??" },                /* torn */
                { "\x1b[31mred\x7f", "?[31mred?" },  /* terminals must not obey us */
        };
        char buf[64], small[4];

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                utf8_copy(buf, sizeof(buf), cases[i].in);
                ASSERT_STREQ(buf, cases[i].out);
        }
        utf8_copy(small, sizeof(small), "ab\xc3\xa4"); /* the cut tears the letter */
        ASSERT_STREQ(small, "ab?");
        utf8_copy(small, sizeof(small), NULL);
        ASSERT_STREQ(small, "");
}

TEST_MAIN(test_ring, test_text_of_stacks, test_utf8)
