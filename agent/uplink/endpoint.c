/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoint.h"

#include <assert.h>
#include <strings.h>

#include "otlp.pb-c.h"

const char *uplink_class_name(enum uplink_class c) {
        static const char *const names[_UPLINK_CLASS_MAX] = {
                [UPLINK_EVENTS] = "events", [UPLINK_METRICS] = "metrics", [UPLINK_LOGS] = "logs"
        };

        return c < _UPLINK_CLASS_MAX ? names[c] : "unknown";
}

const char *endpoint_path(enum uplink_class c) {
        return c == UPLINK_METRICS ? "/v1/metrics" : "/v1/logs";
}

int endpoint_init(struct endpoint *p, sd_event *e, const char *base, struct exchange_options o,
                  void *const userdata[static _UPLINK_CLASS_MAX]) {
        size_t len = strlen(base);
        char why[256];
        int r = 0;

        while (len > 0 && base[len - 1] == '/')
                len--;
        p->https = startswith(base, "https://");
        p->base = strndup(base, len);
        if (!p->base)
                return -ENOMEM;
        o.url = p->base;
        for (size_t c = 0; c < _UPLINK_CLASS_MAX && r >= 0; c++) {
                o.userdata = userdata[c];
                o.beside = p->exchanges[0];
                r = exchange_new(e, &o, &p->exchanges[c], why);
        }
        return r;
}

void endpoint_clear(struct endpoint *p) {
        for (size_t c = _UPLINK_CLASS_MAX; c > 0; c--) /* the first is what the others stand beside */
                p->exchanges[c - 1] = exchange_free(p->exchanges[c - 1]);
        free(TAKE_PTR(p->base));
}

/* --- Routes ------------------------------------------------------------------------------------------ */

void route_worked(struct uplink_route *r) {
        *r = (struct uplink_route) { .sent = r->sent };
}

static void set_why(struct uplink_route *r, const char *why) {
        (void) snprintf(r->why, sizeof(r->why), "%s", why);
}

static usec_t avoid_span(unsigned failures) {
        usec_t span = ROUTE_AVOID;

        for (; failures > ROUTE_FAILURES && span < ROUTE_AVOID_MAX; failures--)
                span *= 2;
        return MIN(span, ROUTE_AVOID_MAX);
}

void route_failed(struct uplink_route *r, usec_t now, usec_t wait, const char *why) {
        if (r->failures < UINT16_MAX)
                r->failures++;
        r->parked = false;
        r->retry_boot = now + wait;
        if (r->failures >= ROUTE_FAILURES || wait > ROUTE_PATIENCE)
                r->avoid_boot = MAX(now + avoid_span(r->failures), r->retry_boot);
        set_why(r, why);
}

void route_park(struct uplink_route *r, usec_t now, usec_t wait, const char *why) {
        r->failures = 0;
        r->parked = true;
        r->retry_boot = r->avoid_boot = now + wait;
        set_why(r, why);
}

int route_pick(const struct uplink_route *routes, size_t n, usec_t now, usec_t *ret_at) {
        size_t best = n;

        assert(n > 0);
        for (size_t i = 0; i < n; i++) {
                if (routes[i].avoid_boot <= now) {
                        best = i;
                        break;
                }
                if (best == n || routes[i].retry_boot < routes[best].retry_boot)
                        best = i;
        }
        if (routes[best].retry_boot <= now)
                return (int) best;
        *ret_at = routes[best].retry_boot;
        return -1;
}

/* --- Answers ------------------------------------------------------------------------------------------ */

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
