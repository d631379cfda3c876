/* SPDX-License-Identifier: Apache-2.0 */
/* The table of events against its catalog, the ring, and text that goes on the wire. */
#include <ctype.h>

#include "events.h"
#include "test.h"
#include "utf8.h"

#define CATALOG FIXTURES "/../../systemd/tpu-hostd.catalog"

static void test_table(void) {
        for (enum event_id i = 0; i < _EVENT_MAX; i++) {
                const struct event_def *d = event_def(i);

                ASSERT_TRUE(startswith(d->name, "tpu."));
                ASSERT_EQ(strlen(d->message_id), 32);
                for (const char *c = d->message_id; *c; c++)
                        ASSERT_TRUE(isdigit((unsigned char) *c) || (*c >= 'a' && *c <= 'f'));
                for (enum event_id k = 0; k < i; k++) {
                        ASSERT_FALSE(streq(event_def(k)->message_id, d->message_id));
                        ASSERT_FALSE(streq(event_def(k)->name, d->name));
                }
        }
}

/* Each event is explained, and nothing else is. */
static void test_catalog(void) {
        _cleanup_fclose_ FILE *f = fopen(CATALOG, "re");
        bool explained[_EVENT_MAX] = { 0 };
        char line[512];

        ASSERT_TRUE(f);
        while (fgets(line, sizeof(line), f)) {
                bool known = false;

                if (!startswith(line, "-- "))
                        continue;
                line[strcspn(line, "\n")] = 0;
                for (enum event_id i = 0; i < _EVENT_MAX; i++)
                        if (streq(line + 3, event_def(i)->message_id))
                                known = explained[i] = true;
                if (!known)
                        test_fail(CATALOG, 0, "%s belongs to no event", line);
        }
        for (enum event_id i = 0; i < _EVENT_MAX; i++)
                if (!explained[i])
                        test_fail(CATALOG, 0, "%s (%s) is not explained", event_def(i)->name,
                                  event_def(i)->message_id);
}

static void add(struct event_ring *r, int64_t number) {
        const struct otlp_attribute body[] = { { .key = "number", .number = number },
                                               { .key = "who", .text = "a \"b\"" } };

        ASSERT_OK(event_ring_add(r, EVENT_CHECK_CHANGED, OTLP_ERROR, (usec_t) 1795237200123000, body,
                                 ELEMENTSOF(body)));
}

static void test_ring(void) {
        struct event_ring *r = calloc(1, sizeof(*r));
        json_t *v, *first;

        ASSERT_TRUE(r);
        event_ring_init(r);
        v = event_ring_to_json(r, 0);
        ASSERT_EQ(json_array_size(json_object_get(v, "events")), 0);
        ASSERT_EQ(json_integer_value(json_object_get(v, "next")), 1);
        json_decref(v);
        for (int64_t i = 1; i <= EVENT_RING + 44; i++)
                add(r, i);
        v = event_ring_to_json(r, 0);
        ASSERT_EQ(json_array_size(json_object_get(v, "events")), EVENT_RING);
        first = json_array_get(json_object_get(v, "events"), 0);
        ASSERT_EQ(json_integer_value(json_object_get(first, "seq")), 45); /* the 44 oldest are gone */
        ASSERT_EQ(json_integer_value(json_object_get(json_object_get(first, "body"), "number")), 45);
        ASSERT_STREQ(json_string_value(json_object_get(json_object_get(first, "body"), "who")), "a \"b\"");
        ASSERT_STREQ(json_string_value(json_object_get(first, "name")), "tpu.check.changed");
        ASSERT_STREQ(json_string_value(json_object_get(first, "severity")), "ERROR");
        ASSERT_STREQ(json_string_value(json_object_get(first, "time")), "2026-11-21T05:00:00.123Z");
        ASSERT_EQ(json_integer_value(json_object_get(v, "next")), EVENT_RING + 45);
        ASSERT_EQ(json_integer_value(json_object_get(v, "missed")), 0); /* nobody said since when */
        json_decref(v);
        v = event_ring_to_json(r, 3);
        ASSERT_EQ(json_integer_value(json_object_get(v, "missed")), 42);
        json_decref(v);
        v = event_ring_to_json(r, 45);
        ASSERT_EQ(json_integer_value(json_object_get(v, "missed")), 0);
        json_decref(v);
        v = event_ring_to_json(r, EVENT_RING + 44);
        ASSERT_EQ(json_array_size(json_object_get(v, "events")), 1);
        json_decref(v);
        v = event_ring_to_json(r, UINT64_MAX);
        ASSERT_EQ(json_array_size(json_object_get(v, "events")), 0);
        json_decref(v);
        event_ring_clear(r);
        free(r);
}

/* A stack is in its record, not in the ring and not in the journal. */
static void test_long_text(void) {
        char text[EVENT_TEXT_MAX + 2];
        const struct otlp_attribute body[] = { { .key = "job", .text = "train" },
                                               { .key = "text", .text = text } };
        json_t *v;

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = 0;
        v = event_body_to_json(body, ELEMENTSOF(body));
        ASSERT_STREQ(json_string_value(json_object_get(v, "job")), "train");
        ASSERT_FALSE(json_object_get(v, "text"));
        json_decref(v);
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

TEST_MAIN(test_table, test_catalog, test_ring, test_long_text, test_utf8)
