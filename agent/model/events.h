/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What happened, as every program of ours says it: events.def is the one list of names, severities, journal
 * ids, sentences and fields. Who emits an event gives its fields, and nothing else:
 *
 *   agent_emit(a, EVENT_OF(RUN_REFUSED, .run = name, .generation = 3, .reason = why, .remedy = what), NULL);
 *
 * The compiler knows each event's fields and their types; tests/structure/test_events.py sees that all are
 * given. Texts are borrowed. A sentence is a template (template.h) over the fields; a number whose name ends
 * in _usec or _msec prints in seconds there.
 */
#include <jansson.h>

#include "base.h"

/* Severity numbers of OpenTelemetry's logs data model. */
enum severity {
        SEVERITY_DEBUG = 5,
        SEVERITY_INFO = 9,
        SEVERITY_WARN = 13,
        SEVERITY_ERROR = 17,
        SEVERITY_FATAL = 21
};
/* "DEBUG", "INFO", …, as in OTLP's severity_text; "": it is none of the 24 numbers. */
const char *severity_name(unsigned severity);
/* LOG_DEBUG … LOG_CRIT. */
int severity_priority(unsigned severity);
/* The reverse, of a line that was logged with this priority. */
enum severity severity_of_priority(unsigned priority);

enum event_id {
#define EVENT(id, name, severity, message_id, sentence, fields) EVENT_##id,
#include "events.def"
#undef EVENT
        _EVENT_MAX,
};

#define EVENT_ABSENT INT64_MIN /* a NUMBER_IF that is not known; a TEXT_IF is NULL then */

#define TEXT(name)      const char *name;
#define TEXT_IF(name)   const char *name;
#define NUMBER(name)    int64_t name;
#define NUMBER_IF(name) int64_t name;
#define EVENT(id, name, severity, message_id, sentence, fields)                                             \
        struct fields_of_##id {                                                                             \
                fields                                                                                      \
        };
#include "events.def"
#undef EVENT
#undef TEXT
#undef TEXT_IF
#undef NUMBER
#undef NUMBER_IF

struct event {
        enum event_id id;
        enum severity severity;
        const void *fields; /* struct fields_of_ID */
};
#define EVENT_AS(id, severity, ...)                                                                         \
        (&(const struct event){ EVENT_##id, severity, &(const struct fields_of_##id){ __VA_ARGS__ } })
/* With its usual severity. */
#define EVENT_OF(id, ...)                                                                                   \
        (&(const struct event){ EVENT_##id, event_def(EVENT_##id)->severity,                                \
                                &(const struct fields_of_##id){ __VA_ARGS__ } })
/* One of several events that have the fields of like. */
#define EVENT_LIKE(like, which, severity, ...)                                                              \
        (&(const struct event){ which, severity, &(const struct fields_of_##like){ __VA_ARGS__ } })

struct event_def {
        const char *name, *message_id, *sentence; /* static */
        enum severity severity;
        const struct event_field {
                const char *key; /* NULL: behind the last */
                bool is_text, optional;
        } * fields;
};
const struct event_def *event_def(enum event_id id);

/* The fields that are there, in the order of the list. Returns how many. */
#define EVENT_FIELDS_MAX 16
struct event_value {
        const char *key, *text; /* text NULL: number is meant */
        int64_t number;
};
size_t event_values(const struct event *e, struct event_value ret[static EVENT_FIELDS_MAX]);

/* The sentence, one line. Returns buf. */
#define EVENT_SENTENCE_MAX 1600
char *event_sentence(const struct event *e, char buf[static EVENT_SENTENCE_MAX]);

/* The same of one that came as JSON, from a program of any version: a field that it lacks is empty. "": no
 * event has that name. */
char *event_sentence_of(const char *name, const json_t *body, char buf[static EVENT_SENTENCE_MAX]);

/* The fields of one that is stored, two texts of JSON: its body, or, of the collector's own, its attributes.
 * Where neither can be read: null. New; NULL: out of memory. */
json_t *event_fields_of(const char *body, const char *attributes);

/* The fields as an object; texts longer than EVENT_TEXT_MAX are left out (stacks are in the record alone).
 * NULL: out of memory. */
#define EVENT_TEXT_MAX 1024
json_t *event_to_json(const struct event *e);
