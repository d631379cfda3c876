/* SPDX-License-Identifier: Apache-2.0 */
#include "metadata_poll.h"

#include "fnv.h"

#include <strings.h>

#include "backoff.h"
#include "loop_timer.h"

#define TIMEOUT         (5 * USEC_PER_SEC)
#define WAIT_GRACE      (10 * USEC_PER_SEC) /* the server answers at the end of a wait, not before */
#define LONG_AWAY       8 /* failures in a row from which on the server gets one try a minute */
#define QUICK           USEC_PER_SEC /* a wait that ends sooner than this was none */
#define CONNECT_TIMEOUT (2 * USEC_PER_SEC)

/* The value of a header line of that name ("etag:"), trimmed; NULL when it is another. */
static const char *header_value(const char *line, size_t len, const char *name, size_t *ret_len) {
        size_t at = strlen(name);

        if (len < at || strncasecmp(line, name, at) != 0)
                return NULL;
        while (at < len && (line[at] == ' ' || line[at] == '\t'))
                at++;
        while (len > at && strchr(" \t\r\n", line[len - 1]) && line[len - 1])
                len--;
        *ret_len = len - at;
        return line + at;
}

static void on_header(const char *line, size_t size, void *userdata) {
        struct poll *p = userdata;
        const char *value;
        size_t len = 0;

        value = header_value(line, size, "metadata-flavor:", &len);
        if (value)
                p->flavored = len == strlen("Google") && memcmp(value, "Google", len) == 0;
        value = header_value(line, size, "etag:", &len);
        /* it goes back in a URL: nothing there may mean more than itself */
        if (value && len < sizeof(p->etag)) {
                memcpy(p->etag, value, len);
                p->etag[len] = '\0';
                if (p->etag[strspn(p->etag,
                                   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")])
                        p->etag[0] = '\0';
        }
}

static void on_done(const struct exchange_answer *x, void *userdata) {
        struct poll *p = userdata;
        const struct metadata_answer a = { .status = x->status,
                                           .content_type = x->content_type,
                                           .flavored = p->flavored,
                                           .body = x->body ? x->body : "",
                                           .len = x->len };

        p->hash = fnv(FNV_BEGIN, x->body, x->len);
        p->answered(p, &a, x->failed ? x->what : NULL);
}

int poll_ask(struct poll *p, const char *path, usec_t wait) {
        char full[EXCHANGE_PATH_MAX], query[128] = "";
        const struct exchange_request q = { .path = full,
                                            .header = "Metadata-Flavor: Google",
                                            .timeout = wait > 0 ? wait + WAIT_GRACE : TIMEOUT };

        p->waiting = wait > 0;
        if (p->waiting)
                (void) snprintf(query, sizeof(query),
                                "%cwait_for_change=true&last_etag=%s&timeout_sec=%" PRIu64,
                                strchr(path, '?') ? '&' : '?', p->known, wait / USEC_PER_SEC);
        (void) snprintf(full, sizeof(full), "/%s%s", path, query);
        (void) sd_event_now(p->event, CLOCK_MONOTONIC, &p->asked_at);
        p->flavored = false;
        p->etag[0] = '\0';
        return exchange_start(p->exchange, &q);
}

bool poll_cancel(struct poll *p) {
        bool asked = exchange_at_work(p->exchange);

        exchange_cancel(p->exchange);
        return asked;
}

/* --- When to ask --------------------------------------------------------------------------------------- */

void poll_in(struct poll *p, usec_t span) {
        (void) loop_timer_in(p->timer, span); /* fails only when the loop ends */
}

void poll_retry(struct poll *p) {
        usec_t span = backoff_next(p->failures, backoff_random());

        if (p->failures >= LONG_AWAY)
                span += BACKOFF_PARKED - BACKOFF_MAX;
        p->failures = MIN(p->failures + 1, (unsigned) UINT16_MAX);
        poll_in(p, span);
}

void poll_go_on(struct poll *p) {
        uint64_t now = 0;

        (void) sd_event_now(p->event, CLOCK_MONOTONIC, &now);
        if (p->waiting && now - p->asked_at < QUICK) {
                poll_in(p, QUICK + backoff_next(p->quick, backoff_random()));
                p->quick = MIN(p->quick + 1, (unsigned) UINT16_MAX);
                return;
        }
        if (p->waiting)
                p->quick = 0;
        p->due(p);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        struct poll *p = userdata;

        (void) s, (void) usec;
        p->due(p);
        return 0;
}

int poll_init(struct poll *p, sd_event *e, const char *name, const char *url, const char *user_agent,
              const struct poll *beside) {
        const struct exchange_options o = { .url = url,
                                            .beside = beside ? beside->exchange : NULL,
                                            .connect_timeout = CONNECT_TIMEOUT,
                                            .answer_max = METADATA_BODY_MAX,
                                            .user_agent = user_agent,
                                            .name = "metadata",
                                            .header = on_header,
                                            .done = on_done,
                                            .userdata = p };
        char why[256];
        int r = loop_timer_new(e, CLOCK_BOOTTIME, 0, name, on_timer, p, &p->timer);

        if (r >= 0)
                r = loop_timer_in(p->timer, 0);
        if (r < 0)
                return r;
        p->event = e;
        return exchange_new(e, &o, &p->exchange, why);
}

void poll_clear(struct poll *p) {
        p->timer = sd_event_source_disable_unref(p->timer);
        p->exchange = exchange_free(p->exchange);
}
