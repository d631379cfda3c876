/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <syslog.h>

#include "events.h"
#include "json_text.h"
#include "template.h"

#define TEXT(name)      { #name, true, false },
#define TEXT_IF(name)   { #name, true, true },
#define NUMBER(name)    { #name, false, false },
#define NUMBER_IF(name) { #name, false, true },
static const struct event_def table[] = {
#define EVENT(id, name, severity, message_id, sentence, fields)                                             \
        [EVENT_##id] = { name, message_id, sentence, SEVERITY_##severity,                                   \
                         (const struct event_field[]){ fields{ NULL, false, false } } },
#include "events.def"
#undef EVENT
};

/* A struct of fields is read as what it is: its fields in order, each of eight bytes. */
#define EVENT(id, name, severity, message_id, sentence, fields)                                             \
        _Static_assert(                                                                                     \
                sizeof(struct fields_of_##id) ==                                                            \
                        8 * (sizeof((const struct event_field[]){ fields }) / sizeof(struct event_field)),  \
                "each field of this event has eight bytes");
#include "events.def"
#undef EVENT
#undef TEXT
#undef TEXT_IF
#undef NUMBER
#undef NUMBER_IF

/* --- Severities ---------------------------------------------------------------------------------------- */

const char *severity_name(unsigned severity) {
        static const char *const names[] = { "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL" };

        return severity >= 1 && severity <= 24 ? names[(severity - 1) / 4] : "";
}

int severity_priority(unsigned severity) {
        static const int priorities[] = { LOG_DEBUG, LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERR, LOG_CRIT };

        return severity >= 1 && severity <= 24 ? priorities[(severity - 1) / 4] : LOG_NOTICE;
}

enum severity severity_of_priority(unsigned priority) {
        if (priority <= LOG_CRIT)
                return SEVERITY_FATAL;
        if (priority == LOG_ERR)
                return SEVERITY_ERROR;
        if (priority == LOG_WARNING)
                return SEVERITY_WARN;
        return priority <= LOG_INFO ? SEVERITY_INFO : SEVERITY_DEBUG;
}

/* --- Fields -------------------------------------------------------------------------------------------- */

const struct event_def *event_def(enum event_id id) {
        assert(id < _EVENT_MAX);
        return &table[id];
}

/* False: it is not known. */
static bool field_value(const struct event *e, size_t i, struct event_value *ret) {
        const struct event_field *f = &table[e->id].fields[i];
        const char *at = (const char *) e->fields + 8 * i;

        *ret = (struct event_value){ .key = f->key };
        if (f->is_text)
                memcpy(&ret->text, at, sizeof(ret->text));
        else
                memcpy(&ret->number, at, sizeof(ret->number));
        assert(f->optional || !f->is_text || ret->text);
        return f->is_text ? ret->text != NULL : !f->optional || ret->number != EVENT_ABSENT;
}

size_t event_values(const struct event *e, struct event_value ret[static EVENT_FIELDS_MAX]) {
        size_t n = 0;

        for (size_t i = 0; table[e->id].fields[i].key; i++) {
                assert(i < EVENT_FIELDS_MAX);
                n += field_value(e, i, &ret[n]);
        }
        return n;
}

/* --- Forms --------------------------------------------------------------------------------------------- */

static bool ends_in(const char *key, const char *end) {
        size_t n = strlen(key), k = strlen(end);

        return n >= k && streq(key + n - k, end);
}

static const char *number_text(const char *key, int64_t n, char buf[static TEMPLATE_NUMBER_MAX]) {
        if (ends_in(key, "_usec") || ends_in(key, "_msec"))
                (void) snprintf(buf, TEMPLATE_NUMBER_MAX, "%.1f s",
                                (double) n / (key[strlen(key) - 4] == 'u' ? 1e6 : 1e3));
        else
                (void) snprintf(buf, TEMPLATE_NUMBER_MAX, "%" PRIi64, n);
        return buf;
}

static const char *field_text(const char *key, size_t len, char buf[static TEMPLATE_NUMBER_MAX],
                              const void *of) {
        const struct event *e = of;
        const struct event_field *fields = table[e->id].fields;
        struct event_value v;
        size_t i = 0;

        while (fields[i].key && (strlen(fields[i].key) != len || memcmp(fields[i].key, key, len) != 0))
                i++;
        if (!fields[i].key)
                return NULL;
        if (!field_value(e, i, &v))
                return "";
        return v.text ? v.text : number_text(v.key, v.number, buf);
}

char *event_sentence(const struct event *e, char buf[static EVENT_SENTENCE_MAX]) {
        return template_fill(buf, EVENT_SENTENCE_MAX, table[e->id].sentence, field_text, e);
}

static const char *body_text(const char *key, size_t len, char buf[static TEMPLATE_NUMBER_MAX],
                             const void *of) {
        char name[64];
        const json_t *v;

        (void) snprintf(name, sizeof(name), "%.*s", (int) len, key);
        v = json_object_get(of, name);
        if (json_is_string(v))
                return json_string_value(v);
        return json_is_integer(v) ? number_text(name, json_integer_value(v), buf) : "";
}

char *event_sentence_of(const char *name, const json_t *body, char buf[static EVENT_SENTENCE_MAX]) {
        buf[0] = '\0';
        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (streq(table[i].name, name))
                        (void) template_fill(buf, EVENT_SENTENCE_MAX, table[i].sentence, body_text, body);
        return buf;
}

json_t *event_fields_of(const char *body, const char *attributes) {
        json_t *v = json_loads(body, JSON_DECODE_ANY, NULL);

        if (json_is_object(v))
                return v;
        json_decref(v);
        v = json_loads(attributes, JSON_DECODE_ANY, NULL);
        return v ?: json_null();
}

json_t *event_to_json(const struct event *e) {
        struct event_value values[EVENT_FIELDS_MAX];
        size_t n = event_values(e, values);
        json_t *o = json_object();

        for (size_t i = 0; o && i < n; i++) {
                const struct event_value *v = &values[i];

                if (!v->text || strlen(v->text) <= EVENT_TEXT_MAX)
                        o = json_member_add(o, v->key,
                                            v->text ? json_string(v->text) : json_integer(v->number));
        }
        return o;
}
