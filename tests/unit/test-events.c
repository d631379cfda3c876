/* SPDX-License-Identifier: Apache-2.0 */
/* The list of events: its ids, its sentences, and the forms that an event takes. */
#include <ctype.h>
#include <syslog.h>

#include "events.h"
#include "template.h"
#include "test.h"

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

/* Each of any fields: every sentence can be made, names nothing that is not there, and shows each field it
 * names. */
static void test_sentences(void) {
        for (enum event_id i = 0; i < _EVENT_MAX; i++) {
                const struct event_def *d = event_def(i);
                union {
                        const char *text;
                        int64_t number;
                } fields[EVENT_FIELDS_MAX];
                struct event e = { i, d->severity, fields };
                char text[EVENT_SENTENCE_MAX];
                size_t n = 0;

                for (; d->fields[n].key; n++)
                        if (d->fields[n].is_text)
                                fields[n].text = d->fields[n].key;
                        else
                                fields[n].number = 1000000 + (int64_t) n;
                (void) event_sentence(&e, text);
                ASSERT_TRUE(*text && !strpbrk(text, "{}[]\n"));
                for (size_t k = 0; k < n; k++) {
                        char named[64];

                        (void) snprintf(named, sizeof(named), "{%s}", d->fields[k].key);
                        if (d->fields[k].is_text && strstr(d->sentence, named))
                                ASSERT_TRUE(strstr(text, d->fields[k].key) != NULL);
                }
        }
}

static const char *sentence_of(const struct event *e) {
        static char text[EVENT_SENTENCE_MAX];

        return event_sentence(e, text);
}

static void test_parts_of_a_sentence(void) {
        ASSERT_STREQ(sentence_of(EVENT_OF(RUN_EXITED, .run = "train", .unit = "u", .cause = "signal",
                                          .code = "killed", .status = "KILL", .killed_by = "process 7",
                                          .why = "", .lost_peer = "", .remedy = "",
                                          .started = EVENT_ABSENT, .ended = EVENT_ABSENT)),
                     "run train ended: signal (killed KILL): process 7");
        ASSERT_STREQ(sentence_of(EVENT_OF(RUN_EXITED, .run = "train", .unit = "u", .cause = "unknown",
                                          .code = "", .status = "", .killed_by = "",
                                          .why = "its unit is gone", .lost_peer = "10.0.0.2", .remedy = "",
                                          .started = 1, .ended = 2)),
                     "run train ended: unknown: its unit is gone, it lost 10.0.0.2");
        ASSERT_STREQ(sentence_of(EVENT_OF(API_ACTED, .call = "POST /x", .caller = "uid 0", .uid = 0,
                                          .pid = 12, .address = NULL, .status = EVENT_ABSENT,
                                          .result = "done")),
                     "uid 0 (pid 12) called POST /x: done");
        ASSERT_STREQ(sentence_of(EVENT_OF(PACKETS_DROPPED, .reason = "R", .place = "p", .packets = 3,
                                          .interval_usec = 1500000, .meaning = "m", .remedy = "")),
                     "3 packets dropped in 1.5 s in p (R): m");
}

/* A sentence is one line of UTF-8, whatever a field holds and however long it is. */
static void test_hostile_fields(void) {
        char large[4 * EVENT_SENTENCE_MAX];
        const char *text;

        text = sentence_of(EVENT_OF(RUN_NOTIFIED, .run = "a\x1b[2J", .generation = 1, .notice = "x\ty",
                                    .result = "one\ntwo\xff"));
        ASSERT_STREQ(text, "run a?[2J was notified of the x y: one; two?");
        memset(large, 'x', sizeof(large) - 1);
        large[sizeof(large) - 1] = '\0';
        text = sentence_of(EVENT_OF(RUN_NOTIFIED, .run = large, .generation = 1, .notice = "{run}",
                                    .result = "[]"));
        ASSERT_EQ(strlen(text), EVENT_SENTENCE_MAX - 1);
        ASSERT_STREQ(sentence_of(EVENT_OF(RUN_NOTIFIED, .run = "r", .generation = 1, .notice = "{run}",
                                          .result = "[x]")),
                     "run r was notified of the {run}: [x]"); /* a field is no template */
}

static void test_fields_that_are_there(void) {
        struct event_value v[EVENT_FIELDS_MAX];
        const struct event *e = EVENT_OF(API_ACTED, .call = "c", .caller = "a", .uid = EVENT_ABSENT,
                                         .pid = EVENT_ABSENT, .address = "10.0.0.1", .status = 0,
                                         .result = "");
        json_t *o = event_to_json(e);

        ASSERT_EQ(event_values(e, v), 5);
        ASSERT_STREQ(v[2].key, "address");
        ASSERT_STREQ(v[3].key, "status");
        ASSERT_TRUE(!v[3].text && v[3].number == 0);
        ASSERT_EQ(json_object_size(o), 5);
        ASSERT_FALSE(json_object_get(o, "uid"));
        json_decref(o);
}

/* A stack is in its record, not in the ring and not in the journal. */
static void test_long_text(void) {
        char text[EVENT_TEXT_MAX + 2];
        json_t *v;

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = 0;
        v = event_to_json(EVENT_OF(RUNTIME_ERROR, .kind = "slice", .type = "", .run = "train", .port = 1,
                                   .text = text));
        ASSERT_STREQ(json_string_value(json_object_get(v, "run")), "train");
        ASSERT_FALSE(json_object_get(v, "text"));
        json_decref(v);
}

static void test_severities(void) {
        ASSERT_STREQ(severity_name(SEVERITY_WARN), "WARN");
        ASSERT_STREQ(severity_name(24), "FATAL");
        ASSERT_STREQ(severity_name(0), "");
        ASSERT_STREQ(severity_name(25), "");
        ASSERT_EQ(severity_priority(SEVERITY_INFO), LOG_INFO);
        ASSERT_EQ(severity_priority(SEVERITY_FATAL), LOG_CRIT);
        for (unsigned p = LOG_CRIT; p <= LOG_DEBUG; p++) /* but notice, which is information */
                ASSERT_EQ(severity_priority(severity_of_priority(p)), p == LOG_NOTICE ? LOG_INFO : (int) p);
        ASSERT_EQ(severity_of_priority(LOG_EMERG), SEVERITY_FATAL);
}

TEST_MAIN(test_table, test_sentences, test_parts_of_a_sentence, test_hostile_fields,
          test_fields_that_are_there,
          test_long_text, test_severities)
