/* SPDX-License-Identifier: Apache-2.0 */
#include "otlp_answer.h"

#include <strings.h>

#include "otlp.pb-c.h"

static bool is_content_type(const char *content_type, const char *wanted) {
        size_t n = strlen(wanted);

        return content_type && strncasecmp(content_type, wanted, n) == 0 &&
               (content_type[n] == '\0' || content_type[n] == ';' || content_type[n] == ' ');
}

/* Copies what a stranger wrote for a person to read: printable ASCII only. */
static void set_answer_text(char ret[static ANSWER_TEXT_MAX], const char *what, const char *said) {
        size_t n = (size_t) snprintf(ret, ANSWER_TEXT_MAX, "%s", what);

        if (!said || !*said || n + 3 >= ANSWER_TEXT_MAX)
                return;
        ret[n++] = ':';
        ret[n++] = ' ';
        for (; *said && n + 1 < ANSWER_TEXT_MAX; said++)
                ret[n++] = *said >= ' ' && *said <= '~' ? *said : '?';
        ret[n] = '\0';
}

static enum answer judge_success(const char *content_type, const void *body, size_t len,
                                 uint64_t *ret_rejected, char *text) {
        Otlp__ExportResponse *m;
        enum answer a = ANSWER_DONE;

        if (len == 0 || is_content_type(content_type, "application/json"))
                return ANSWER_DONE;
        m = is_content_type(content_type, "application/x-protobuf")
                    ? otlp__export_response__unpack(NULL, len, body)
                    : NULL;
        if (!m) {
                set_answer_text(text, "HTTP 200, but the body is no OTLP answer; is this an OTLP endpoint?",
                                NULL);
                return ANSWER_PARKED;
        }
        if (m->partial_success && m->partial_success->rejected > 0) {
                *ret_rejected = (uint64_t) m->partial_success->rejected;
                set_answer_text(text, "partly refused", m->partial_success->error_message);
                a = ANSWER_PARTIAL;
        } else if (m->partial_success && m->partial_success->error_message &&
                   m->partial_success->error_message[0])
                set_answer_text(text, "taken, with a warning", m->partial_success->error_message);
        otlp__export_response__free_unpacked(m, NULL);
        return a;
}

/* The message in the body of an error answer, if it has the specified form. */
static void error_text(long status, const char *content_type, const void *body, size_t len, char *text) {
        Otlp__Status *m = NULL;
        char what[32];

        (void) snprintf(what, sizeof(what), "HTTP %ld", status);
        if (len > 0 && is_content_type(content_type, "application/x-protobuf"))
                m = otlp__status__unpack(NULL, len, body);
        set_answer_text(text, what, m ? m->message : NULL);
        if (m)
                otlp__status__free_unpacked(m, NULL);
}

enum answer answer_judge(long status, const char *content_type, const void *body, size_t len,
                         uint64_t *ret_rejected, char ret_text[static ANSWER_TEXT_MAX]) {
        ret_text[0] = '\0';
        *ret_rejected = 0;
        if (status == 200)
                return judge_success(content_type, body, len, ret_rejected, ret_text);
        error_text(status, content_type, body, len, ret_text);
        switch (status) {
        case 400:
        case 413:
        case 422:
                return ANSWER_REFUSED;
        case 429:
        case 502:
        case 503:
        case 504:
                return ANSWER_RETRY;
        default:
                return ANSWER_PARKED;
        }
}
